package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/platform/apierr"
)

// MaxDepth is how many runs may be above a run where nothing says less. MaxSubRuns is how many runs a run may mint.
const (
	MaxDepth   = 32
	MaxSubRuns = 1000
)

// ReasonTooDeep refuses to mint a run below one that is as deep as runs may be.
const ReasonTooDeep apierr.Reason = "run_too_deep"

// Refusals to mint a run below another.
var (
	// ErrTooDeep also ends the parent: agents that call each other without an end are stopped where they are.
	ErrTooDeep = denied(ReasonTooDeep, "parent_run_id: the run is as deep below others as runs may be; its authority has ended")
	// ErrSubRuns is the error of a run that has minted MaxSubRuns others.
	ErrSubRuns = apierr.New(apierr.KindConflict, apierr.ReasonConflict, fmt.Sprintf("parent_run_id: the run has minted %d runs, and may mint no more", MaxSubRuns))
)

// Below returns the run as it is minted below a parent, which has used u and has minted so many runs, and the limits that
// the parent keeps. Each amount that limits the parent is shared: what the new run gets is no longer the parent's. Of
// models and tools it gets those of the parent unless it names fewer, and it ends when the parent ends at the latest. An
// *apierr.Error refuses it.
func (r Run) Below(parent *Run, u Usage, minted, mostDepth int, now time.Time) (child Run, kept Limits, err error) {
	at := parent.At(now, u)
	if at.Status == Unminted {
		return r, kept, apierr.Invalid("parent_run_id", "is no run with an authority")
	}
	if refused := at.Refusal(now); refused != nil {
		return r, kept, refused
	}
	if parent.Depth >= min(mostDepth, MaxDepth) {
		return r, kept, ErrTooDeep
	}
	if minted >= MaxSubRuns {
		return r, kept, ErrSubRuns
	}
	r.Depth, kept = parent.Depth+1, parent.Limits
	for _, step := range []func(*Limits, *Limits, Usage) error{shareTime, shareNames, shareAmounts} {
		if err := step(&r.Limits, &kept, u); err != nil {
			return r, parent.Limits, err
		}
	}
	return r, kept, nil
}

func shareTime(child, parent *Limits, _ Usage) error {
	if child.ExpiresAt.IsZero() {
		child.ExpiresAt = parent.ExpiresAt
	}
	if child.ExpiresAt.After(parent.ExpiresAt) {
		return apierr.Invalid("expires_at", "must not be after the end of the parent")
	}
	return nil
}

func shareNames(child, parent *Limits, _ Usage) error {
	for _, names := range []struct {
		field   string
		own     *[]string
		of      []string
		allowed func(string) bool
	}{
		{"models", &child.Models, parent.Models, func(name string) bool { return slices.Contains(parent.Models, name) }},
		{"allowed_tools", &child.AllowedTools, parent.AllowedTools, parent.allowsPattern},
	} {
		if len(names.of) == 0 {
			continue
		}
		if len(*names.own) == 0 {
			*names.own = slices.Clone(names.of)
		}
		for i, name := range *names.own {
			if !names.allowed(name) {
				return apierr.Invalid(fmt.Sprintf("%s[%d]", names.field, i), "must be one of the parent's")
			}
		}
	}
	return nil
}

// allowsPattern reports whether all that a pattern of tools matches is allowed for certain: the same pattern is, and so is
// one without "*" that names an allowed tool.
func (l Limits) allowsPattern(p string) bool {
	server, tool, _ := strings.Cut(p, "/")
	return slices.Contains(l.AllowedTools, p) || !strings.Contains(p, "*") && l.AllowsTool(server, tool)
}

func shareAmounts(child, parent *Limits, u Usage) error {
	if parent.MaxCostCents > 0 {
		limit := amount.Nearest(parent.MaxCostCents)
		left := limit.Minus(amount.Nearest(u.SpentCents)).Minus(amount.Nearest(u.ReservedCents)).Cents()
		if err := checkShare("max_cost_cents", child.MaxCostCents, left); err != nil {
			return err
		}
		parent.MaxCostCents = limit.Minus(amount.Nearest(child.MaxCostCents)).Cents()
	}
	for _, amount := range []struct {
		field      string
		own, limit *int
		used       int64
	}{
		{"max_calls", &child.MaxCalls, &parent.MaxCalls, u.Calls + u.InFlight},
		{"max_tool_calls", &child.MaxToolCalls, &parent.MaxToolCalls, u.ToolCalls + u.ToolsInFlight},
	} {
		if *amount.limit == 0 {
			continue
		}
		if err := checkShare(amount.field, float64(*amount.own), float64(int64(*amount.limit)-amount.used)); err != nil {
			return err
		}
		*amount.limit -= *amount.own
	}
	return nil
}

// checkShare refuses a share of an amount unless the parent keeps some of it.
func checkShare(field string, share, left float64) error {
	switch {
	case share == 0:
		return apierr.Invalid(field, "is required, since the parent has a limit, of which the run gets a part")
	case share >= left:
		return apierr.Invalid(field, "must be less than what the parent has left")
	}
	return nil
}
