package kinesis

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/shardwarden/shardwarden/core"
)

// name is how the user named the stream: by name, by ARN, or by the id that Describe gives it.
type name struct {
	stream  string
	arn     string // empty where the user gave a name
	region  string
	account string // empty where the user gave a name
	epoch   int64  // when it was created, in Unix seconds: only that one is meant. 0: whichever is there
}

var (
	streamName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,128}$`) // API reference, CreateStream
	partition  = regexp.MustCompile(`^aws(-[a-z]+)*$`)         // aws, aws-cn, aws-us-gov, and those of closed regions
	accountID  = regexp.MustCompile(`^\d{12}$`)
)

// parseName reads what the user gave, and compares it with the region the calls will go to.
func parseName(s, region string) (name, error) {
	if region == "" {
		return name{}, fmt.Errorf("no region for stream %q: set Region in the aws.Config, AWS_REGION in the environment, or region in the AWS profile", s)
	}
	if !strings.HasPrefix(s, "arn:") {
		if strings.Contains(s, ":") {
			return parseID(s, region)
		}
		if !streamName.MatchString(s) {
			return name{}, fmt.Errorf("stream name %q: must be 1 to 128 letters, digits, '_', '.' or '-', or an ARN, or account:name:creationEpoch", s)
		}
		return name{stream: s, region: region}, nil
	}
	n, err := parseARN(s)
	if err != nil {
		return name{}, err
	}
	if n.region != region {
		return name{}, fmt.Errorf("stream %s is in region %s, but the aws.Config sends to region %s: give the source a config for %s", s, n.region, region, n.region)
	}
	return n, nil
}

// parseID reads a stream as the KCL's multi-stream mode names it, and as lease keys do.
func parseID(s, region string) (name, error) {
	part := strings.Split(s, ":")
	if len(part) != 3 {
		return name{}, fmt.Errorf("stream %q: expected a name, an ARN, or account:name:creationEpoch", s)
	}
	epoch, err := strconv.ParseInt(part[2], 10, 64)
	switch {
	case !accountID.MatchString(part[0]):
		return name{}, fmt.Errorf("stream %q: %q is no account, which has 12 digits: expected account:name:creationEpoch", s, part[0])
	case !streamName.MatchString(part[1]):
		return name{}, fmt.Errorf("stream %q: %q is no stream name: expected account:name:creationEpoch", s, part[1])
	case err != nil || epoch <= 0:
		return name{}, fmt.Errorf("stream %q: %q is no time of creation in Unix seconds: expected account:name:creationEpoch", s, part[2])
	}
	n := name{stream: part[1], region: region, account: part[0], epoch: epoch}
	n.arn = n.resource()
	return n, nil
}

// epochError is that there is a stream of that name, and it is not the one that is meant. It matches [core.ErrNotFound] and
// [core.ErrOtherStream].
type epochError struct {
	name name
	is   core.StreamID
}

func (e *epochError) Error() string {
	return fmt.Sprintf("there is no stream %s that was created at %d: the one of that name is %s, so it was deleted and made again, or the epoch is wrong; name the stream without an epoch to take whichever is there",
		e.name.stream, e.name.epoch, e.is)
}

func (e *epochError) Is(target error) bool {
	return target == core.ErrNotFound || target == core.ErrOtherStream
}

func parseARN(s string) (name, error) {
	bad := func(why string) (name, error) {
		return name{}, fmt.Errorf("stream ARN %q: %s: expected arn:aws:kinesis:REGION:ACCOUNT:stream/NAME", s, why)
	}
	part := strings.SplitN(s, ":", 6)
	if len(part) != 6 {
		return bad("too few parts")
	}
	if !partition.MatchString(part[1]) {
		return bad(fmt.Sprintf("partition %q is not aws, aws-cn, aws-us-gov or the like", part[1]))
	}
	if part[2] != "kinesis" {
		return bad(fmt.Sprintf("it names %q, not kinesis", part[2]))
	}
	if part[3] == "" || !accountID.MatchString(part[4]) {
		return bad("region or account is missing")
	}
	stream, ok := strings.CutPrefix(part[5], "stream/")
	if !ok {
		return bad("it names no stream")
	}
	if _, _, consumer := strings.Cut(stream, "/consumer/"); consumer {
		return bad("it names a consumer of a stream")
	}
	if !streamName.MatchString(stream) {
		return bad(fmt.Sprintf("%q is no stream name", stream))
	}
	return name{stream: stream, arn: s, region: part[3], account: part[4]}, nil
}

// forCall gives the two fields of a request of which one names the stream.
func (n name) forCall() (streamName, streamARN *string) {
	if n.arn != "" {
		return nil, aws.String(n.arn)
	}
	return aws.String(n.stream), nil
}

// resource is the stream as a policy names it.
func (n name) resource() string {
	if n.arn != "" {
		return n.arn
	}
	partition := "aws"
	switch {
	case strings.HasPrefix(n.region, "cn-"):
		partition = "aws-cn"
	case strings.HasPrefix(n.region, "us-gov-"):
		partition = "aws-us-gov"
	}
	return fmt.Sprintf("arn:%s:kinesis:%s:%s:stream/%s", partition, n.region, cmp.Or(n.account, "*"), n.stream)
}
