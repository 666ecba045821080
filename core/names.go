package core

// StreamID names one incarnation of a stream: a stream that is deleted and made again under the same name has another id, so that it
// never inherits the progress of the former. For Kinesis it is "account:stream:creationEpoch" (the serialized identifier of the KCL's
// multi-stream mode), for Tablestore the stream id of the service. Opaque to the engine.
type StreamID string

// ShardID names a shard within its stream. It is never used twice in one incarnation. Opaque to the engine.
type ShardID string

// WorkerID names a worker: one running [worker.Worker]. Two live workers must not share an id.
//
// [worker.Worker]: https://pkg.go.dev/github.com/shardwarden/shardwarden/core/worker#Worker
type WorkerID string

// Nobody is the zero WorkerID: no owner, no next owner.
const Nobody WorkerID = ""

// LeaseKey names a lease: one shard of one stream. Each store encodes it in its own way.
type LeaseKey struct {
	Stream StreamID
	Shard  ShardID
}

// String is "stream/shard", for logs.
func (k LeaseKey) String() string { return string(k.Stream) + "/" + string(k.Shard) }
