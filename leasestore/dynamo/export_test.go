package dynamo

// For tests from outside.
var (
	DecodeLease = decodeLease
	EncodeLease = encodeLease
	KindOf      = kindOf
)
