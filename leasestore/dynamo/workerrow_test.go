package dynamo

import (
	"testing"
)

func TestSmoothed(t *testing.T) {
	for _, c := range []struct {
		name    string
		samples []float64
		want    float64
		ok      bool
	}{
		{"none", nil, 0, false},
		{"one", []float64{40}, 40, true},
		{"the later ones count more", []float64{0, 40, 80}, 50, true},
		{"missing ones are passed over", []float64{-1, 40, -1, 80, -1}, 60, true},
		{"all missing", []float64{-1, -1}, 0, false},
		{"zero is a figure", []float64{0}, 0, true},
	} {
		if f, ok := smoothed(c.samples); f != c.want || ok != c.ok {
			t.Errorf("%s: %v of %v, want %v, %v", c.name, f, c.samples, c.want, c.ok)
		}
	}
}
