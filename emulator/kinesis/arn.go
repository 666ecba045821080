package kinesis

import (
	"regexp"
	"strings"
)

// streamRef names a stream in a request, by name, by ARN or by both.
type streamRef struct {
	StreamName *string
	StreamARN  *string
	StreamId   *string // refused: the API reference says of it that the service does not take it yet
}

func (r *streamRef) aim(s *Server) target {
	name, err := s.nameIn(*r)
	if err != nil {
		return target{}
	}
	return target{stream: name}
}

func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	default:
		return "aws"
	}
}

func (s *Server) arnOf(stream string) string {
	return "arn:" + partition(s.config.Region) + ":kinesis:" + s.config.Region + ":" + s.config.Account + ":stream/" + stream
}

var arnPattern = regexp.MustCompile(`^arn:aws.*:kinesis:[^:]*:\d{12}:stream/\S+$`)

func (v *validation) stream(r streamRef) {
	v.name("streamName", r.StreamName, false)
	v.unsupported("StreamId", r.StreamId != nil)
	v.text("streamARN", r.StreamARN, 1, 2048)
	if r.StreamARN != nil && *r.StreamARN != "" && !arnPattern.MatchString(*r.StreamARN) {
		v.add("streamARN", quote(*r.StreamARN), `Member must satisfy regular expression pattern: arn:aws.*:kinesis:.*:\d{12}:stream/\S+`)
	}
}

// nameIn gives the name that a reference comes down to. It does not look whether there is such a stream.
func (s *Server) nameIn(r streamRef) (string, error) {
	if r.StreamARN == nil {
		if r.StreamName == nil {
			return "", invalidArgument("Either StreamName or StreamARN must be given.")
		}
		return *r.StreamName, nil
	}
	parts := strings.SplitN(*r.StreamARN, ":", 6)
	if len(parts) != 6 || !strings.HasPrefix(parts[5], "stream/") {
		return "", invalidArgument("StreamARN %s is not the ARN of a stream.", *r.StreamARN)
	}
	name := strings.TrimPrefix(parts[5], "stream/")
	if own := s.config.Region; parts[3] != own || parts[1] != partition(own) {
		return "", invalidArgument("StreamARN %s is of partition %s, region %s; this endpoint serves partition %s, region %s.",
			*r.StreamARN, parts[1], parts[3], partition(own), own)
	}
	if parts[4] != s.config.Account {
		return "", notFound("Stream %s under account %s not found.", name, parts[4])
	}
	if r.StreamName != nil && *r.StreamName != name {
		return "", invalidArgument("StreamName %s and StreamARN %s name different streams.", *r.StreamName, *r.StreamARN)
	}
	return name, nil
}
