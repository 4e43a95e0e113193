package run

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/services/platform/apierr"
)

func TestBelow(t *testing.T) {
	parent := minted(Limits{MaxCostCents: 10, MaxCalls: 5, MaxToolCalls: 3, Models: []string{"a", "b"}, AllowedTools: []string{"files/*", "git/log"}})
	u := used(4, 2)
	share := Limits{MaxCostCents: 2.5, MaxCalls: 2, MaxToolCalls: 1}
	with := func(change func(*Limits)) Limits {
		l := share
		change(&l)
		return l
	}
	ended := parent
	ended.Status = Revoked
	deep := parent
	deep.Depth = 2
	for name, c := range map[string]struct {
		parent Run
		limits Limits
		minted int
		field  string // of a refusal
		reason apierr.Reason
	}{
		"a share":                           {parent: parent, limits: share},
		"fewer names":                       {parent: parent, limits: with(func(l *Limits) { l.Models, l.AllowedTools = []string{"b"}, []string{"files/read"} })},
		"the same pattern":                  {parent: parent, limits: with(func(l *Limits) { l.AllowedTools = []string{"files/*"} })},
		"an earlier end":                    {parent: parent, limits: with(func(l *Limits) { l.ExpiresAt = now.Add(time.Minute) })},
		"a later end":                       {parent: parent, limits: with(func(l *Limits) { l.ExpiresAt = now.Add(2 * time.Hour) }), field: "expires_at"},
		"another model":                     {parent: parent, limits: with(func(l *Limits) { l.Models = []string{"b", "c"} }), field: "models[1]"},
		"another tool":                      {parent: parent, limits: with(func(l *Limits) { l.AllowedTools = []string{"git/push"} }), field: "allowed_tools[0]"},
		"a wider pattern":                   {parent: parent, limits: with(func(l *Limits) { l.AllowedTools = []string{"*/log"} }), field: "allowed_tools[0]"},
		"no amount":                         {parent: parent, limits: with(func(l *Limits) { l.MaxCostCents = 0 }), field: "max_cost_cents"},
		"all that is left":                  {parent: parent, limits: with(func(l *Limits) { l.MaxCostCents = 6 }), field: "max_cost_cents"},
		"all calls that are left":           {parent: parent, limits: with(func(l *Limits) { l.MaxCalls = 3 }), field: "max_calls"},
		"more calls of tools than are left": {parent: parent, limits: with(func(l *Limits) { l.MaxToolCalls = 4 }), field: "max_tool_calls"},
		"a run that has ended":              {parent: ended, limits: share, reason: ReasonRevoked},
		"a run without an authority":        {parent: Run{ID: "r"}, limits: share, field: "parent_run_id"},
		"too deep":                          {parent: deep, limits: share, reason: ReasonTooDeep},
		"too many":                          {parent: parent, limits: share, minted: MaxSubRuns, reason: apierr.ReasonConflict},
	} {
		t.Run(name, func(t *testing.T) {
			child, kept, err := Run{Limits: c.limits}.Below(&c.parent, u, c.minted, 2, now)
			if c.field != "" || c.reason != "" {
				refused, ok := errors.AsType[*apierr.Error](err)
				if !ok || refused.Field() != c.field || c.reason != "" && refused.Reason != c.reason {
					t.Fatalf("%v, want field %q and reason %q", err, c.field, c.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if child.Depth != 1 || child.Limits.ExpiresAt.After(parent.Limits.ExpiresAt) || child.Limits.ExpiresAt.IsZero() || len(child.Limits.Models) == 0 || len(child.Limits.AllowedTools) == 0 {
				t.Errorf("minted %+v", child)
			}
			if kept.MaxCostCents != 7.5 || kept.MaxCalls != 3 || kept.MaxToolCalls != 2 || len(kept.Models) != 2 {
				t.Errorf("the parent keeps %+v", kept)
			}
		})
	}
}

// However runs are minted below each other, what they may use together is no more than what the first one could.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := []Run{minted(Limits{MaxCostCents: 1000, MaxCalls: 1000, MaxToolCalls: 1000})}
		for range rapid.IntRange(1, 30).Draw(t, "mints") {
			parent := &runs[rapid.IntRange(0, len(runs)-1).Draw(t, "parent")]
			child, kept, err := Run{Status: Minted, Limits: Limits{
				MaxCostCents: float64(rapid.IntRange(0, 600).Draw(t, "cents")) / 10, MaxCalls: rapid.IntRange(0, 600).Draw(t, "calls"),
				MaxToolCalls: rapid.IntRange(0, 600).Draw(t, "calls of tools"),
			}}.Below(parent, Usage{}, 0, MaxDepth, now)
			if err != nil {
				if kept.MaxCalls != 0 && kept.MaxCalls != parent.Limits.MaxCalls {
					t.Fatalf("refused, and %+v is kept of %+v", kept, parent.Limits)
				}
				continue
			}
			parent.Limits = kept
			runs = append(runs, child)
		}
		var cents float64
		calls, tools := 0, 0
		for _, r := range runs {
			cents, calls, tools = cents+r.Limits.MaxCostCents, calls+r.Limits.MaxCalls, tools+r.Limits.MaxToolCalls
			if r.Limits.MaxCostCents <= 0 || r.Limits.MaxCalls <= 0 || r.Limits.MaxToolCalls <= 0 {
				t.Fatalf("a run without a limit: %+v", r.Limits)
			}
		}
		if cents > 1000.0000001 || calls != 1000 || tools != 1000 {
			t.Fatalf("together %v cents, %d calls, %d of tools", cents, calls, tools)
		}
	})
}
