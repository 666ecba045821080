package ots

// What the tests outside look at.
var (
	DecodeLease = decodeLease
	EncodeLease = encodeLease
)
