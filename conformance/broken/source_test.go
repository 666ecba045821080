package broken

import (
	"testing"

	"github.com/shardwarden/shardwarden/conformance"
)

func TestSoundSource(t *testing.T) {
	t.Parallel()
	conformance.TestSource(t, SoundSource.Make, conformance.FakeTime())
	report, err := conformance.CheckSource(t.Context(), SoundSource.Make)
	if err != nil {
		t.Errorf("%v\n%s", err, report)
	}
	var found []string
	for _, b := range Sources() {
		found = append(found, b.Rule)
	}
	complete(t, report, found)
}

func TestSources(t *testing.T) {
	for _, b := range Sources() {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			report, err := conformance.CheckSource(t.Context(), b.Make, opts(b.Rule)...)
			found(t, report, err, b.Rule)
		})
	}
}
