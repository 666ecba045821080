package kinesis

import "github.com/shardwarden/shardwarden/core"

// poisoned makes a page unreadable when it is released, so that a handler that keeps records without [core.Record.Clone] sees it at once and
// not when the memory happens to be used again. On in builds with the tag poisonpages; this package's tests set it.
var poisoned = poisonPages

const (
	poisonByte = 0xDB
	poisonText = "used after its page was released: Clone records that are kept"
)

// poison overwrites what records point to, and the records.
func (b *buffer) poison() {
	body := b.body[:cap(b.body)]
	for i := range body {
		body[i] = poisonByte
	}
	for i := range b.records {
		b.records[i] = core.Record{Data: []byte(poisonText), Key: poisonText, Sequence: poisonText, Arrived: -1}
	}
}
