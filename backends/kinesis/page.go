package kinesis

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/core"
)

// recordOverhead is what a record takes beside its data and key: the record itself, and a sequence number of 56 digits.
const recordOverhead = 160

// newPage makes a page of what the SDK decoded: one allocation for all records, which point into the SDK's memory. Nothing is reused, so
// there is nothing to release. read is the size of the records as the service's limits count it: data and keys.
func newPage(out *sdk.GetRecordsOutput) (p *core.Page, read int) {
	p = &core.Page{Lag: -1}
	if ms := out.MillisBehindLatest; ms != nil {
		p.Lag = time.Duration(*ms) * time.Millisecond
	}
	if len(out.Records) == 0 {
		return p, 0
	}
	p.Records = make([]core.Record, len(out.Records))
	for i := range out.Records {
		in, r := &out.Records[i], &p.Records[i]
		r.Data, r.Key, r.Sequence = in.Data, aws.ToString(in.PartitionKey), aws.ToString(in.SequenceNumber)
		if t := in.ApproximateArrivalTimestamp; t != nil {
			r.Arrived = t.UnixMilli()
		}
		read += len(r.Data) + len(r.Key)
	}
	p.Bytes = read + recordOverhead*len(p.Records)
	return p, read
}
