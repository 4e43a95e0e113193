package provider

// Reasoning is how much a model is to think before it answers, in a form that each dialect maps to its own. It is a
// hint unless Required.
type Reasoning struct {
	// Effort is empty where the caller set none, or only a budget.
	Effort Effort
	// BudgetTokens is the most tokens of thinking; 0 is none given.
	BudgetTokens int
	// Summary asks for a summary of the thinking: "auto", "concise" or "detailed"; empty leaves it to the vendor.
	Summary string
	// Required excludes models that don't reason.
	Required bool
}

// Effort is a level of reasoning. The zero value is none given.
type Effort string

// The efforts, least first.
const (
	EffortNone    Effort = "none"
	EffortMinimal Effort = "minimal"
	EffortLow     Effort = "low"
	EffortMedium  Effort = "medium"
	EffortHigh    Effort = "high"
	EffortXHigh   Effort = "xhigh"
	EffortMax     Effort = "max"
)

// efforts are all levels, least first, with the budget of tokens that stands for each where a vendor wants one.
var efforts = []struct {
	effort Effort
	budget int
}{
	{EffortNone, 0}, {EffortMinimal, 1024}, {EffortLow, 4096}, {EffortMedium, 8192}, {EffortHigh, 16384}, {EffortXHigh, 32768}, {EffortMax, 65536},
}

// IsKnown reports whether the effort is one of the levels.
func (e Effort) IsKnown() bool { return e.index() >= 0 }

// index returns the position of a level; -1 for none.
func (e Effort) index() int {
	for i := range efforts {
		if efforts[i].effort == e {
			return i
		}
	}
	return -1
}

// Level returns the effort, or the one that the budget stands for: the highest whose own budget it reaches.
func (r *Reasoning) Level() Effort {
	switch {
	case r == nil:
		return ""
	case r.Effort != "" || r.BudgetTokens == 0:
		return r.Effort
	}
	level := EffortMinimal
	for _, of := range efforts {
		if of.budget > 0 && of.budget <= r.BudgetTokens {
			level = of.effort
		}
	}
	return level
}

// Budget returns the budget, or the one that stands for the effort; 0 for no thinking and for no effort given.
func (r *Reasoning) Budget() int {
	if r == nil {
		return 0
	}
	if r.BudgetTokens > 0 {
		return r.BudgetTokens
	}
	if i := r.Effort.index(); i >= 0 {
		return efforts[i].budget
	}
	return 0
}

// Within returns the highest of some levels that is not above e, or the lowest of them: what a vendor that knows only
// these comes closest with. levels are in their order, least first; there is at least one.
func (e Effort) Within(levels ...Effort) Effort {
	nearest := levels[0]
	for _, level := range levels {
		if level.index() <= e.index() {
			nearest = level
		}
	}
	return nearest
}
