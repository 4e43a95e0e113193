package testkit_test

import (
	"testing"

	"switchyard.dev/services/platform/testkit"
)

// failures counts calls of Errorf.
type failures struct {
	testing.TB

	n int
}

func (*failures) Helper() {}

func (f *failures) Errorf(string, ...any) { f.n++ }

func TestCheckDecimals(t *testing.T) {
	for body, want := range map[string]int{
		`{"remaining_cents": 1.1448999999999998}`: 1, `{"cost_cents":0.30000000000000004,"input_cents_per_million":0.1}`: 1,
		`{"cost_cents":1e-10,"spent_cents":99999.9999999999,"budget_ceiling_cents":1000000000000,"score":0.30000000000000004}`: 0,
	} {
		f := &failures{TB: t}
		if testkit.CheckDecimals(f, body); f.n != want {
			t.Errorf("%s: %d errors, want %d", body, f.n, want)
		}
	}
}
