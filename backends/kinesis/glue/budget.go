package glue

import "fmt"

// budget is the memory that one record may take, in bytes. What values take is reckoned, not measured: about what the runtime needs on a
// machine of 64 bits.
type budget struct{ left, all int }

func newBudget(n int) *budget { return &budget{left: n, all: n} }

// take uses some of it up, before the memory is allocated.
func (b *budget) take(n int) error {
	if n < 0 || n > b.left {
		return fmt.Errorf("it would take more than %d bytes of memory decoded (see MaxBytes)", b.all)
	}
	b.left -= n
	return nil
}

func (b *budget) used() int { return b.all - b.left }

// What values take.
const (
	slotBytes  = 16 // an interface
	boxBytes   = 8  // what a number in an interface points to
	textBytes  = 24 // the head of a string or slice, and what alignment loses
	mapBytes   = 48
	groupBytes = 272 // eight entries of a map with strings for keys
)

// entries is what a map of n entries takes beside keys' and values' own.
func entries(n int) int { return mapBytes + (n+6)/7*groupBytes }

// deepest is how deep values may be nested, as in encoding/json and Protobuf. Goroutine stacks end at some depth, and take the process with them.
const deepest = 10_000

var errDeep = fmt.Errorf("its values are nested more than %d deep", deepest)
