package dynamo

import (
	"io/fs"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/cpuload"
)

// For tests from outside.
var (
	DecodeLease = func(row Attributes) (core.Lease, error) { return decodeLease(row, false) }
	EncodeLease = encodeLease
	KindOf      = kindOf
)

// Measure lets a store measure another machine.
func Measure(s *Store, machine fs.FS) { s.meter = cpuload.NewOf(machine) }
