//go:build poisonpages

package kinesis

const poisonPages = true
