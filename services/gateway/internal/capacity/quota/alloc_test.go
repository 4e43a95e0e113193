//go:build !race

package quota

import "testing"

func TestReserveWithoutLimitDoesNotAllocate(t *testing.T) {
	b := New(Options{})
	ctx := t.Context()
	own := claim("key/1/gpt-5", Limit{}, 1000)
	alternatives := [][]Claim{claim("credential/1/gpt-5", Limit{}, 1000), claim("credential/2/gpt-5", Limit{Tokens: 1}, 1000)}
	d := Demand{Queue: "gpt-5", Organization: "acme", Claims: own, Alternatives: alternatives}
	if n := testing.AllocsPerRun(1000, func() {
		r, _ := b.Reserve(ctx, d)
		r.Settle(10)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
