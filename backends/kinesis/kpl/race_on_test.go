//go:build race

package kpl

const raceDetector = true
