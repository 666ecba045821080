package consume

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

// Who finds Java workers in the table is told the flag of this program, not only the library's option.
func TestForeignWorkerNamesTheFlag(t *testing.T) {
	t.Parallel()
	found := fmt.Errorf("worker \"java-1\" renews leases: %w", core.ErrForeignWorker)
	for _, s := range services() {
		o := options{service: s}
		f := o.flags(t.Output())
		err := o.outcome(slog.New(slog.DiscardHandler), nil, found)
		if !errors.Is(err, core.ErrForeignWorker) {
			t.Errorf("%s: the error is %v", s.name(), err)
			continue
		}
		flag, _, _ := strings.Cut(strings.TrimPrefix(s.sharing(), "--"), " ")
		if !strings.Contains(err.Error(), "--"+flag) || f.Lookup(flag) == nil {
			t.Errorf("%s: %v names no flag of the program", s.name(), err)
		}
	}
}
