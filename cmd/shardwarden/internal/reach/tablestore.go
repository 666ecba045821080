package reach

import (
	"github.com/shardwarden/shardwarden/backends/tablestore"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
)

// Tablestore says how an instance is reached. Credentials come from the environment alone.
type Tablestore struct{ Name, Endpoint string }

// Flags declares --instance and --endpoint; required is what their help says of when they are needed.
func (t *Tablestore) Flags(f *command.Flags, required string) {
	f.StringVar(&t.Name, "instance", "", "name of the Tablestore instance ("+required+")")
	f.StringVar(&t.Endpoint, "endpoint", "", "URL of the instance, such as https://INSTANCE.REGION.ots.aliyuncs.com, or of an emulator ("+required+")")
	f.Check(func() error { return checkURL("endpoint", t.Endpoint) })
}

// Instance is the instance, for sources; ots.Instance(t.Instance()) for stores.
func (t *Tablestore) Instance() tablestore.Instance {
	return tablestore.Instance{Endpoint: t.Endpoint, Name: t.Name}
}
