package kinesis

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

func TestFanOutPushes(t *testing.T) {
	bubble(t, emulator.Config{ConsumerDelay: 25 * time.Second}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", numbered(5)...)
		rd := r.open(r.source("orders", FanOut("billing")), shardID(0), core.FromHorizon)
		start := time.Now()
		got, _ := r.read(rd, 5)
		if fmt.Sprint(data(got)) != "[0 1 2 3 4]" || time.Since(start) < 25*time.Second || time.Since(start) > 27*time.Second {
			t.Errorf("read %v after %v", data(got), time.Since(start))
		}
		start = time.Now()
		r.put("orders", "k", "5")
		got, _ = r.read(rd, 1)
		if fmt.Sprint(data(got)) != "[5]" || time.Since(start) != 0 {
			t.Errorf("read %v after %v", data(got), time.Since(start))
		}
		r.split("orders", shardID(0))
		_, last := r.read(rd, 0)
		if !last.End || ids(last.Children) != "1 2" {
			t.Errorf("at the end %+v", last)
		}
		if n := len(r.times("GetRecords")); n != 0 {
			t.Errorf("%d polls", n)
		}
		if ops := r.asked("RegisterStreamConsumer", "ConsumerName"); !slices.Equal(ops, []string{"billing"}) {
			t.Errorf("registered %v", ops)
		}
	})
}
