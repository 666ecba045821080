package kinesis

import "context"

// operations is what the server can do.
var operations = func() map[string]operation {
	ops := map[string]operation{
		"AddTagsToStream":               on(addTags),
		"CreateStream":                  on(createStream),
		"DecreaseStreamRetentionPeriod": on(decreaseRetention),
		"DeleteStream":                  on(deleteStream),
		"DescribeLimits":                on(describeLimits),
		"DescribeStream":                on(describeStream),
		"DescribeStreamSummary":         on(describeStreamSummary),
		"GetRecords":                    on(getRecords),
		"GetShardIterator":              on(getShardIterator),
		"IncreaseStreamRetentionPeriod": on(increaseRetention),
		"ListShards":                    on(listShards),
		"ListStreams":                   on(listStreams),
		"ListTagsForStream":             on(listTags),
		"MergeShards":                   on(mergeShards),
		"PutRecord":                     on(putRecord),
		"PutRecords":                    on(putRecords),
		"RemoveTagsFromStream":          on(removeTags),
		"SplitShard":                    on(splitShard),
		"UpdateMaxRecordSize":           on(updateMaxRecordSize),
		"UpdateShardCount":              on(updateShardCount),
		"UpdateStreamMode":              on(updateStreamMode),
	}
	for _, name := range consumerOperations {
		ops[name] = notYet
	}
	return ops
}()

// consumerOperations are those of enhanced fan-out, which the server does not have so far.
var consumerOperations = []string{
	"DeregisterStreamConsumer",
	"DescribeStreamConsumer",
	"ListStreamConsumers",
	"RegisterStreamConsumer",
	"SubscribeToShard",
}

func notYet(_ context.Context, _ *Server, c *call, _ bool, _ []byte) (answer, error) {
	return nil, refuse("UnknownOperationException", "%s is not supported by this emulator yet: it has no enhanced fan-out; read by GetRecords", c.operation)
}
