package kinesis

import (
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
)

func TestConfigNamesWhatCannotWork(t *testing.T) {
	bad := Config{Region: "here", Account: "1", ShardLimit: -1, CreateDelay: -1, UpdateDelay: -1, IteratorLife: -1, Retention: time.Microsecond,
		ConsumerLimit: -1, ConsumerDelay: -1, SubscriptionLife: -1, HeartbeatEvery: -1, EventRecords: -1, Faults: []Fault{{Kind: "x"}}}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{"Region", "Account", "ShardLimit", "CreateDelay", "UpdateDelay", "IteratorLife", "Retention", "ConsumerLimit", "ConsumerDelay", "SubscriptionLife", "HeartbeatEvery", "EventRecords", "Faults[0]"} {
		if !strings.Contains(err.Error(), "Config."+field+" is ") {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	for name, c := range map[string]Config{"zero": {}, "full": {Region: "us-gov-west-1", Account: "123456789012", ShardLimit: 1, Retention: time.Hour}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := newRig(t, Config{Account: "1"})
	_, err = r.c.ListStreams(t.Context(), &sdk.ListStreamsInput{})
	wantCode(t, err, "InternalFailure", "Config.Account")
}

func TestCalls(t *testing.T) {
	r := newRig(t, Config{Faults: []Fault{{Kind: Internal, Operation: "ListStreams"}}})
	for range 3 {
		_, _ = r.c.ListStreams(t.Context(), &sdk.ListStreamsInput{})
	}
	r.create("orders", 1)
	got := r.s.Calls()
	if len(got) != 2 || got["ListStreams"] != 3 || got["CreateStream"] != 1 {
		t.Errorf("calls %v", got)
	}
	got["ListStreams"] = 0
	if r.s.Calls()["ListStreams"] != 3 {
		t.Error("the caller's map is the server's")
	}
}
