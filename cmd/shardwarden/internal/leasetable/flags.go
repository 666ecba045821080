// Package leasetable opens lease tables for tools: whoever wrote them, of whichever service. What it shows it has only read.
package leasetable

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/reach"
)

// Flags say which lease table, and of which stream.
type Flags struct {
	reach.AWS
	Instance reach.Tablestore

	App, Table, Coordinator, Metrics string
	Status                           string
	Stream                           string
}

// Declare declares them all.
func (t *Flags) Declare(f *command.Flags) {
	t.DeclareDynamo(f)
	f.StringVar(&t.Status, "status-table", "", "Tablestore: the table of the leases (required there)")
	t.Instance.Flags(f, "required with --status-table")
	f.Check(t.check)
}

// DeclareDynamo declares those of a table in DynamoDB.
func (t *Flags) DeclareDynamo(f *command.Flags) {
	f.StringVar(&t.App, "app", "", "DynamoDB: the application, after which its lease table is called")
	f.StringVar(&t.Table, "table", "", "DynamoDB: the lease table, where it is not called like the application")
	f.StringVar(&t.Coordinator, "coordinator-table", "", "DynamoDB: the KCL's coordinator table, where it is not APP-CoordinatorState")
	f.StringVar(&t.Metrics, "metrics-table", "", "DynamoDB: the KCL's table of worker metrics, where it is not APP-WorkerMetricStats")
	t.AWS.Flags(f)
}

func (t *Flags) check() error {
	dynamo, ots := t.App != "" || t.Table != "", t.Status != "" || t.Instance.Name != "" || t.Instance.Endpoint != ""
	switch {
	case dynamo && ots:
		return errors.New("--app and --table are of DynamoDB, --status-table, --instance and --endpoint of Tablestore: say one of the two")
	case ots:
		var missing []string
		for _, f := range []struct{ name, value string }{{"--status-table", t.Status}, {"--instance", t.Instance.Name}, {"--endpoint", t.Instance.Endpoint}} {
			if f.value == "" {
				missing = append(missing, f.name)
			}
		}
		if len(missing) > 0 {
			return errors.New(strings.Join(missing, ", ") + " missing: a table in Tablestore is named by --status-table, --instance and --endpoint")
		}
	case !dynamo:
		return errors.New("which lease table? Say --app (DynamoDB), or --status-table, --instance and --endpoint (Tablestore)")
	}
	return nil
}

// Open makes the clients. It asks the service what kind of table it is, and writes nothing.
func (t *Flags) Open(ctx context.Context) (*Table, error) {
	if t.Status != "" {
		return openTablestore(t), nil
	}
	return openDynamo(ctx, t)
}

// Name is the name of the table.
func (t *Flags) Name() string { return cmp.Or(t.Status, t.Table, t.App) }

// app is the name that the names of the KCL's other tables begin with.
func (t *Flags) app() string { return cmp.Or(t.App, t.Table) }
