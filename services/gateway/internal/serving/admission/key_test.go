package admission

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/money/budget"
)

// reserved is a Budget that keeps the last call.
type reserved struct {
	Budget

	call budget.Call
}

func (r *reserved) Reserve(_ context.Context, c budget.Call) error {
	r.call = c
	return nil
}

// A key with a budget reserves and needs prices. One without, whatever its other terms, asks no store.
func TestTermsOfAKey(t *testing.T) {
	limited := keyterm.Terms{Key: "k", Budget: keyterm.Budget{CeilingCents: 5, Period: organization.PeriodMonth}}
	for name, tt := range map[string]struct {
		key  keyterm.Terms
		want bool
	}{
		"none":      {keyterm.Terms{}, false},
		"no budget": {keyterm.Terms{Key: "k", TokensPerMinute: 1, Models: []string{"m"}, Class: keyterm.ClassBulk}, false},
		"a budget":  {limited, true},
	} {
		d, s := open(t)
		g, err := d.Admit(t.Context(), "acme", "", tt.key)
		if err != nil {
			t.Fatal(err)
		}
		if terms := g.Terms(); terms.Reserves != tt.want || terms.Priced != tt.want {
			t.Errorf("%s: %+v", name, terms)
		}
		g.End(false)
		if s.asked != 0 || len(s.released) != 0 {
			t.Errorf("%s: %d lookups, released %v", name, s.asked, s.released)
		}
	}
	d, s := open(t)
	kept := &reserved{Budget: s}
	d.Budget = kept
	g, err := d.Admit(t.Context(), "acme", "", limited)
	if err != nil {
		t.Fatal(err)
	}
	defer g.End(true)
	id := uuid.New()
	if err := g.Reserve(t.Context(), id, 7); err != nil {
		t.Fatal(err)
	}
	if want := (budget.Call{ID: id, Organization: "acme", KeyOrigin: "k", KeyBudget: limited.Budget, Worst: 7}); kept.call != want {
		t.Errorf("reserved %+v, want %+v", kept.call, want)
	}
}

// A call of a tool is reserved with what it counts as, and settled as any other.
func TestReserveTool(t *testing.T) {
	d, s := open(t)
	kept := &reserved{Budget: s}
	d.Budget = kept
	g, err := d.Admit(t.Context(), "acme", "r", keyterm.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	id, tool := uuid.New(), budget.Tool{Digest: [32]byte{1}, MaxCalls: 2, Repeats: 3}
	if err := g.ReserveTool(t.Context(), id, 7, tool); err != nil {
		t.Fatal(err)
	}
	if c := kept.call; c.ID != id || c.Run != "r" || c.Worst != 7 || c.Tool == nil || *c.Tool != tool {
		t.Errorf("%+v", c)
	}
	g.End(false)
	if len(s.released) != 1 || s.released[0] != id {
		t.Errorf("released %v", s.released)
	}
}
