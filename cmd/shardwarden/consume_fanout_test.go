package main

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/emulator/kinesis"
)

// consumers names the consumers of a stream.
func (c *cloud) consumers(stream string) (names []string) {
	c.t.Helper()
	out, err := c.client.ListStreamConsumers(c.t.Context(), &sdk.ListStreamConsumersInput{StreamARN: aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/" + stream)})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, k := range out.Consumers {
		names = append(names, *k.ConsumerName)
	}
	return names
}

func TestConsumeFanOut(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 2)
	c.fill("orders", 300)
	var all []printed
	for _, n := range []string{"100", "200"} { // the second run goes on, with the consumer of the first
		p, e := c.consume("--stream", "orders", "--app", "billing", "--fan-out", "--max", n)
		all = append(all, parse(t, p.rest())...)
		p.wantExit(0)
		if failures(e.all()) > 0 {
			t.Errorf("errors: %+v", e.all())
		}
	}
	c.wantAll(all, 1)
	p, _ := c.consume("--stream", "orders", "--app", "search", "--fan-out", "--consumer", "looking", "--max", "300")
	c.wantAll(parse(t, p.rest()), 1)
	p.wantExit(0)
	if got := c.consumers("orders"); !slices.Equal(got, []string{"billing", "looking"}) {
		t.Errorf("consumers %v", got)
	}
	if calls := c.kinesis.Calls(); calls["GetRecords"] != 0 || calls["RegisterStreamConsumer"] != 2 || calls["DeregisterStreamConsumer"] != 0 {
		t.Errorf("calls %v", calls)
	}
}

func TestConsumeFanOutOrPoll(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 1)
	c.fill("orders", 50)
	if err := c.kinesis.SetFault(kinesis.Fault{Kind: kinesis.AccessDenied, Operation: "RegisterStreamConsumer"}); err != nil {
		t.Fatal(err)
	}
	p, _ := c.consume("--stream", "orders", "--app", "billing", "--fan-out", "--or-poll", "--max", "50")
	c.wantAll(parse(t, p.rest()), 1)
	p.wantExit(0)
	if c.kinesis.Calls()["GetRecords"] == 0 {
		t.Error("nothing was polled")
	}
}
