package dynamo

import "github.com/shardwarden/shardwarden/core"

// For tests from outside.
var (
	DecodeLease = func(row Attributes) (core.Lease, error) { return decodeLease(row, false) }
	EncodeLease = encodeLease
	KindOf      = kindOf
)
