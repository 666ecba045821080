package kinesis

import "time"

// What the service allows each shard (service-sizes-and-limits in its developer guide). One MiB, not one million
// bytes: the API reference of GetRecords and PutRecords counts in MiB.
const (
	readsPerSecond     = 5
	iteratorsPerSecond = 5
	readBytesPerSecond = 2 << 20
	writeRecordsPerSec = 1000
	writeBytesPerSec   = 1 << 20
)

// bucket allows rate units a second, a second's worth at once. The zero bucket is full.
type bucket struct {
	used float64 // not yet refilled
	at   time.Time
}

func (b *bucket) refill(now time.Time, rate float64) {
	b.used = max(0, b.used-now.Sub(b.at).Seconds()*rate)
	b.at = now
}

// has says whether n units may be taken. More than a second's worth may be taken from a full bucket.
func (b *bucket) has(now time.Time, rate, n float64) bool {
	b.refill(now, rate)
	return b.used+n <= rate || b.used == 0
}

func (b *bucket) take(n float64) { b.used += n }

// shardLimits is what one shard has left of its limits.
type shardLimits struct {
	reads, iterators         bucket
	writeRecords, writeBytes bucket

	// Bytes read: a page is given whole, and what exceeds a second's worth is paid for afterwards. So a page of
	// 10 MiB makes the calls of the next 5 seconds fail, and one of a little over 2 MiB those of the next second, as
	// the API reference of GetRecords says.
	readBytes bucket
	exhausted bool
}

// mayRead takes one read; false means throttled, and then nothing is taken.
func (l *shardLimits) mayRead(now time.Time) bool {
	l.readBytes.refill(now, readBytesPerSecond)
	if l.exhausted && l.readBytes.used > 0 {
		return false
	}
	l.exhausted = false
	if !l.reads.has(now, readsPerSecond, 1) {
		return false
	}
	l.reads.take(1)
	return true
}

func (l *shardLimits) didRead(n int) {
	l.readBytes.take(float64(n))
	l.exhausted = l.readBytes.used > readBytesPerSecond
}

// mayWrite takes one record of n bytes; false means throttled, and then nothing is taken.
func (l *shardLimits) mayWrite(now time.Time, n int) bool {
	if !l.writeRecords.has(now, writeRecordsPerSec, 1) || !l.writeBytes.has(now, writeBytesPerSec, float64(n)) {
		return false
	}
	l.writeRecords.take(1)
	l.writeBytes.take(float64(n))
	return true
}

func (l *shardLimits) mayGetIterator(now time.Time) bool {
	if !l.iterators.has(now, iteratorsPerSecond, 1) {
		return false
	}
	l.iterators.take(1)
	return true
}
