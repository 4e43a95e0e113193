package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Hedge is when a second call of a request of some goal may start before the first has answered. The zero value is
// never.
type Hedge struct {
	// BudgetPercent is what hedges may cost, of the cost of the goal's completions: above 0, at most mostHedged.
	BudgetPercent float64 `yaml:"budget_percent"`
	// After is the wait before the second call; 0 follows from the budget and from how long calls usually take.
	After time.Duration `yaml:"after"`
	// Goal is the one whose completions the budget is a part of.
	Goal Goal `yaml:"-"`
}

const (
	// mostHedged is the largest budget of hedges, in percent.
	mostHedged = 20
	// LeastHedgeWait is the shortest wait before a second call.
	LeastHedgeWait = 10 * time.Millisecond
)

// On reports whether there are hedges.
func (h Hedge) On() bool { return h.BudgetPercent > 0 }

func (h Hedge) check() error {
	var wrong failures
	if !(h.BudgetPercent > 0 && h.BudgetPercent <= mostHedged) {
		wrong.add("budget_percent", fmt.Errorf("want more than 0, at most %d", mostHedged))
	}
	if h.After != 0 && h.After < LeastHedgeWait {
		wrong.add("after", fmt.Errorf("want at least %s", LeastHedgeWait))
	}
	return wrong.err()
}

// setHedges sets the hedges by goal.
func (p *Policy) setHedges(of map[Goal]Hedge) error {
	var wrong failures
	for _, goal := range slices.Sorted(maps.Keys(of)) {
		if !goal.IsKnown() {
			wrong.add("hedge."+string(goal), errors.New("want cost, latency or quality"))
			continue
		}
		if err := of[goal].check(); err != nil {
			wrong = append(wrong, flat(prefix("hedge."+string(goal)+".", err))...)
		}
		h := of[goal]
		h.Goal = goal
		p.hedges[goal.index()] = h
	}
	return wrong.err()
}

// Hedge returns when requests of a goal are hedged; an empty goal is the policy's default.
func (p *Policy) Hedge(goal Goal) Hedge {
	if goal == "" {
		goal = p.goal
	}
	if at := goal.index(); at >= 0 {
		return p.hedges[at]
	}
	return Hedge{}
}
