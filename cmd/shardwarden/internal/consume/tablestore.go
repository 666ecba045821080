package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/backends/tablestore"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/reach"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

// tablestoreFlags are those of the streams of some tables, with leases in a status table of the same instance.
type tablestoreFlags struct {
	reach.Tablestore
	status string
	tables []string
	java   time.Duration
}

func (*tablestoreFlags) name() string { return "tablestore" }

func (*tablestoreFlags) data() form { return asJSON }

func (*tablestoreFlags) about() string {
	return `shardwarden consume tablestore: join a fleet as one worker and print the changes of its share of the shards of some tables.

Start it as often as wanted, on as many machines as wanted: all that name the same --status-table share the shards. That table is made if it is
missing, in the form of the Java Stream Client, whose workers may join too (--with-java). Each table needs its stream switched on. data is the
change as a JSON object, without loss (docs/tablestore.md). Credentials come from the environment alone: TABLESTORE_ACCESS_KEY_ID,
TABLESTORE_ACCESS_KEY_SECRET and, for temporary ones, TABLESTORE_SESSION_TOKEN.`
}

func (*tablestoreFlags) examples() string {
	return `  export TABLESTORE_ACCESS_KEY_ID=… TABLESTORE_ACCESS_KEY_SECRET=…
  shardwarden consume tablestore --instance shop --table orders --status-table orders_status --endpoint https://shop.cn-hangzhou.ots.aliyuncs.com
  shardwarden consume tablestore --instance shop --table orders --table customers --status-table export --endpoint … | jq -c .data
  shardwarden consume tablestore --instance shop --table orders --status-table orders_status --endpoint … --with-java 20s
  shardwarden consume tablestore --instance any --table orders --status-table s --endpoint http://127.0.0.1:4567   # with: shardwarden emulator tablestore`
}

func (t *tablestoreFlags) flags(f *command.Flags) {
	t.Tablestore.Flags(f, "required")
	f.StringArrayVar(&t.tables, "table", nil, "table whose changes to print (required); again for each further one")
	f.StringVar(&t.status, "status-table", "", "table of the leases: workers that name the same one share the shards (required)")
	f.DurationVar(&t.java, "with-java", 0, "workers of the Java Stream Client share the status table; their lease duration (leaseDurationMillis, 20s unless they say otherwise)")
	f.Require("instance", "status-table", "endpoint")
	f.Check(t.checkTables)
	f.Check(func() error {
		if f.Changed("with-java") && t.java < time.Second {
			return fmt.Errorf("--with-java is %v: must be the lease duration of the Java workers, such as 20s", t.java)
		}
		return nil
	})
}

func (t *tablestoreFlags) checkTables() error {
	if len(t.tables) == 0 {
		return errors.New("--table is missing: it must be given")
	}
	for i, name := range t.tables {
		switch {
		case name == "" || strings.ContainsAny(name, ", "):
			return fmt.Errorf("--table is %q: must be the name of one table; give --table again for each further one", name)
		case slices.Contains(t.tables[:i], name):
			return fmt.Errorf("--table %s is given twice", name)
		case name == t.status:
			return fmt.Errorf("--table and --status-table are both %s: leases need a table of their own", name)
		}
	}
	return nil
}

func (*tablestoreFlags) sharing() string { return "--with-java 20s" }

func (*tablestoreFlags) adjust(*worker.Config) {}

// connect calls nobody.
func (t *tablestoreFlags) connect(_ context.Context, start core.Position, log *slog.Logger) (core.Catalog, core.LeaseStore, error) {
	there := t.Instance()
	store := []ots.Option{ots.Logger(log)}
	if t.java > 0 {
		store = append(store, ots.WithJava(t.java))
	}
	return tablestore.Tables(there, start, t.tables, tablestore.Logger(log)), ots.New(ots.Instance(there), t.status, store...), nil
}
