package tablestore_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

func (c *client) admin(method, path, body string) (int, string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, "http://emulator"+tablestore.AdminPath+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	resp, out := c.do(req)
	return resp.StatusCode, string(bytes.TrimSpace(out))
}

func TestAdminCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, []keySpec{{"id", ots.PrimaryKeyType_INTEGER, false}}, 24)
		c.mustPut(tab, pk(int64(1)), nil)
		c.mustPut(tab, pk(int64(2)), nil)
		root := string(*c.shards(tab)[0].SelfShard)
		do := func(method, path, body, want string) {
			t.Helper()
			if status, got := c.admin(method, path, body); status != http.StatusOK || !strings.HasPrefix(got, want) {
				t.Errorf("%s %s %s: %d %s, want %s", method, path, body, status, got, want)
			}
		}
		do("GET", "partitions?instance=inst&table=orders", "", `[{"from":null,"to":null,"shard":"`+root+`"}]`)
		do("POST", "split", `{"instance": "inst", "table": "orders", "at": 5}`, `{"shards":["`)
		parts, _ := s.Partitions(inst, tab)
		do("GET", "partitions?instance=inst&table=orders", "", `[{"from":null,"to":5,"shard":"`+parts[0].Shard+`"},{"from":5,"to":null,"shard":"`+parts[1].Shard+`"}]`)
		do("POST", "split", `{"instance": "inst", "table": "orders", "shard": "`+parts[0].Shard+`"}`, `{"shards":["`)
		if got := ranges(t, s); got != "<nil>..2 2..5 5..<nil>" {
			t.Errorf("after two splits: %s", got)
		}
		parts, _ = s.Partitions(inst, tab)
		do("POST", "merge", `{"instance": "inst", "table": "orders", "shards": ["`+parts[0].Shard+`", "`+parts[1].Shard+`"]}`, `{"shards":["`)
		if got := ranges(t, s); got != "<nil>..5 5..<nil>" {
			t.Errorf("after the merge: %s", got)
		}
		it := c.iterator(tab, ots.ShardId(root), nil)
		do("POST", "trim", `{"instance": "inst", "table": "orders", "shard": "`+root+`", "before": "2000-01-01T00:00:00.000001Z"}`, `{}`)
		_, err := c.read(it, 0)
		wantCode(t, "after trim", err, "OTSTrimmedDataAccess")
		before := len(c.shards(tab))
		do("POST", "expire", `{"instance": "inst", "table": "orders", "shard": "`+parts[0].Shard+`"}`, `{}`)
		if n := len(c.shards(tab)); n != before-1 {
			t.Errorf("%d shards after expire, %d before", n, before)
		}
		do("POST", "faults", `{"kind": "delay", "delay": "2s", "operation": "ListTable", "times": 1}`, `{}`)
		began := time.Now()
		if _, err := c.ListTable(); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		do("POST", "faults", `{"kind": "fail", "code": "OTSServerBusy"}`, `{}`)
		_, err = c.ListTable()
		wantCode(t, "with a fault", err, "OTSServerBusy")
		do("DELETE", "faults", "", `{}`)
		if _, err = c.ListTable(); err != nil {
			t.Error(err)
		}
		if _, got := c.admin("GET", "calls", ""); !strings.Contains(got, `"ListTable":3`) {
			t.Errorf("calls: %s", got)
		}
	})
}

func TestAdminMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, []keySpec{{"id", ots.PrimaryKeyType_BINARY, false}}, 24)
		for _, tt := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"POST", "explode", "", 404, "no such call of the emulator: POST explode"},
			{"GET", "split", "", 404, "no such call"},
			{"GET", "partitions?instance=inst&table=none", "", 400, "Requested table does not exist"},
			{"POST", "split", "{", 400, "unexpected EOF"},
			{"POST", "split", `{"tabel": "x"}`, 400, `unknown field`},
			{"POST", "split", `{"instance": "inst", "table": "orders", "at": 1.5}`, 400, "1.5 is not a value of a primary key"},
			{"POST", "split", `{"instance": "inst", "table": "orders", "at": 1}`, 400, "of type BLOB"},
			{"POST", "split", `{"instance": "inst", "table": "orders", "at": {"base64": "AQ=="}}`, 200, `{"shards":`},
			{"POST", "split", `{"instance": "inst", "table": "orders", "at": 1, "shard": "s"}`, 400, "not both"},
			{"POST", "merge", `{"instance": "inst", "table": "orders", "shards": ["a"]}`, 400, "want two"},
			{"POST", "trim", `{"instance": "inst", "table": "orders"}`, 400, "before is missing"},
			{"POST", "expire", `{"instance": "inst", "table": "orders", "shard": "none"}`, 400, `has no shard`},
			{"POST", "faults", `{"kind": "delay", "delay": "soon"}`, 400, "invalid duration"},
			{"POST", "faults", `{"kind": "fail"}`, 400, "Fault.Code"},
		} {
			if status, got := c.admin(tt.method, tt.path, tt.body); status != tt.status || !strings.Contains(got, tt.want) {
				t.Errorf("%s %s %s: %d %s, want %d %s", tt.method, tt.path, tt.body, status, got, tt.status, tt.want)
			}
		}
	})
}
