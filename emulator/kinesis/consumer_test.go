package kinesis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

func (r *rig) register(stream, name string) (*types.Consumer, error) {
	o, err := r.c.RegisterStreamConsumer(r.t.Context(), &sdk.RegisterStreamConsumerInput{StreamARN: aws.String(r.s.arnOf(stream)), ConsumerName: &name})
	if err != nil {
		return nil, err
	}
	return o.Consumer, nil
}

func (r *rig) registered(stream, name string) string {
	r.t.Helper()
	c, err := r.register(stream, name)
	r.ok(err)
	return *c.ConsumerARN
}

// consumerState is that of the ARN, or the error's text.
func (r *rig) consumerState(arn string) string {
	o, err := r.c.DescribeStreamConsumer(r.t.Context(), &sdk.DescribeStreamConsumerInput{ConsumerARN: &arn})
	if err != nil {
		return err.Error()
	}
	return string(o.ConsumerDescription.ConsumerStatus)
}

func TestStatesOfAConsumer(t *testing.T) {
	inBubble(t, Config{ConsumerDelay: 10 * time.Second}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		arn := r.registered("orders", "app")
		if want := fmt.Sprintf("arn:aws:kinesis:us-east-1:000000000000:stream/orders/consumer/app:%d", time.Now().Unix()); arn != want {
			t.Errorf("ARN %s, want %s", arn, want)
		}
		if got := r.consumerState(arn); got != "CREATING" {
			t.Errorf("at once %s", got)
		}
		_, err := r.subscribe(arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeLatest})
		wantCode(t, err, "ResourceInUseException", "app", "CREATING")
		_, err = r.c.DeregisterStreamConsumer(t.Context(), &sdk.DeregisterStreamConsumerInput{ConsumerARN: &arn})
		wantCode(t, err, "ResourceInUseException", "CREATING")
		_, err = r.register("orders", "app")
		wantCode(t, err, "ResourceInUseException", "app", "orders")
		time.Sleep(10 * time.Second)
		o, err := r.c.DescribeStreamConsumer(t.Context(), &sdk.DescribeStreamConsumerInput{StreamARN: aws.String(r.s.arnOf("orders")), ConsumerName: aws.String("app")})
		r.ok(err)
		if d := o.ConsumerDescription; d.ConsumerStatus != types.ConsumerStatusActive || *d.ConsumerARN != arn || *d.StreamARN != r.s.arnOf("orders") {
			t.Errorf("after 10 s %s %s of %s", d.ConsumerStatus, *d.ConsumerARN, *d.StreamARN)
		}
		if n := *r.summary("orders").ConsumerCount; n != 1 {
			t.Errorf("%d consumers counted", n)
		}
		_, err = r.c.DeregisterStreamConsumer(t.Context(), &sdk.DeregisterStreamConsumerInput{StreamARN: aws.String(r.s.arnOf("orders")), ConsumerName: aws.String("app")})
		r.ok(err)
		if got := r.consumerState(arn); got != "DELETING" {
			t.Errorf("deregistered %s", got)
		}
		_, err = r.register("orders", "app")
		wantCode(t, err, "ResourceInUseException")
		time.Sleep(10 * time.Second)
		if got := r.consumerState(arn); !strings.Contains(got, "ResourceNotFoundException") {
			t.Errorf("once deleted %s", got)
		}
		again := r.registered("orders", "app")
		if again == arn || !strings.Contains(r.consumerState(arn), "ResourceNotFoundException") {
			t.Errorf("a consumer made again has ARN %s, the former one %s", again, arn)
		}
	})
}

func TestAConsumerMadeAgainAtOnceHasAnotherARN(t *testing.T) {
	r := newRig(t, Config{})
	r.create("orders", 1)
	seen := map[string]bool{}
	for range 3 {
		arn := r.registered("orders", "app")
		if seen[arn] {
			t.Errorf("%s twice", arn)
		}
		seen[arn] = true
		_, err := r.c.DeregisterStreamConsumer(t.Context(), &sdk.DeregisterStreamConsumerInput{ConsumerARN: &arn})
		r.ok(err)
	}
}

func TestLimitsOfConsumers(t *testing.T) {
	inBubble(t, Config{ConsumerDelay: time.Second, ConsumerLimit: 7}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.create("other", 1)
		for i := range 5 {
			r.registered("orders", fmt.Sprint("app", i))
		}
		_, err := r.register("orders", "app5")
		wantCode(t, err, "LimitExceededException", "5 consumers are being created")
		r.registered("other", "app5")
		time.Sleep(time.Second)
		r.registered("orders", "app5")
		r.registered("orders", "app6")
		time.Sleep(time.Second)
		_, err = r.register("orders", "app7")
		wantCode(t, err, "LimitExceededException", "orders", "7 consumers")
	})
}

func TestListingConsumers(t *testing.T) {
	r := newRig(t, Config{})
	r.create("orders", 1)
	r.create("other", 1)
	for i := range 7 {
		r.registered("orders", fmt.Sprint("app", i))
	}
	var names []string
	in := &sdk.ListStreamConsumersInput{StreamARN: aws.String(r.s.arnOf("orders")), MaxResults: aws.Int32(3)}
	var tokens []*string
	for {
		o, err := r.c.ListStreamConsumers(t.Context(), in)
		r.ok(err)
		for _, c := range o.Consumers {
			names = append(names, *c.ConsumerName)
		}
		if o.NextToken == nil {
			break
		}
		tokens = append(tokens, o.NextToken)
		in.NextToken = o.NextToken
	}
	if got := strings.Join(names, " "); got != "app0 app1 app2 app3 app4 app5 app6" || len(tokens) != 2 {
		t.Errorf("listed %q in %d pages", got, len(tokens)+1)
	}
	_, err := r.c.ListStreamConsumers(t.Context(), &sdk.ListStreamConsumersInput{StreamARN: aws.String(r.s.arnOf("other")), NextToken: tokens[0]})
	wantCode(t, err, "InvalidArgumentException", "another stream")
	_, err = r.c.ListStreamConsumers(t.Context(), &sdk.ListStreamConsumersInput{StreamARN: aws.String(r.s.arnOf("orders")), StreamCreationTimestamp: aws.Time(time.Unix(1, 0))})
	wantCode(t, err, "ResourceNotFoundException", "creation time")
}

func TestRefusedConsumers(t *testing.T) {
	r := newRig(t, Config{})
	r.create("orders", 1)
	good := r.registered("orders", "app")
	describe := func(in sdk.DescribeStreamConsumerInput) error {
		_, err := r.c.DescribeStreamConsumer(t.Context(), &in)
		return err
	}
	for name, tc := range map[string]struct {
		err  error
		code string
		word string
	}{
		"nothing":        {describe(sdk.DescribeStreamConsumerInput{}), "InvalidArgumentException", "ConsumerARN"},
		"name alone":     {describe(sdk.DescribeStreamConsumerInput{ConsumerName: aws.String("app")}), "InvalidArgumentException", "StreamARN"},
		"no such name":   {describe(sdk.DescribeStreamConsumerInput{StreamARN: aws.String(r.s.arnOf("orders")), ConsumerName: aws.String("other")}), "ResourceNotFoundException", "other"},
		"another time":   {describe(sdk.DescribeStreamConsumerInput{ConsumerARN: aws.String(good + "1")}), "ResourceNotFoundException", "app"},
		"not an ARN":     {describe(sdk.DescribeStreamConsumerInput{ConsumerARN: aws.String("app")}), "ValidationException", "consumerARN"},
		"another region": {describe(sdk.DescribeStreamConsumerInput{ConsumerARN: aws.String(strings.Replace(good, "us-east-1", "eu-west-1", 1))}), "InvalidArgumentException", "eu-west-1"},
		"contradiction":  {describe(sdk.DescribeStreamConsumerInput{ConsumerARN: &good, ConsumerName: aws.String("other"), StreamARN: aws.String(r.s.arnOf("orders"))}), "InvalidArgumentException", "another consumer"},
		"stream in use": {func() error {
			_, err := r.c.DeleteStream(t.Context(), &sdk.DeleteStreamInput{StreamName: aws.String("orders")})
			return err
		}(), "ResourceInUseException", "EnforceConsumerDeletion"},
		"no such stream": {func() error { _, err := r.register("gone", "app"); return err }(), "ResourceNotFoundException", "gone"},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, tc.err, tc.code, tc.word) })
	}
}
