package filter

import (
	"time"

	"switchyard.dev/services/platform/expression"
)

// Verdict is the result of a filter.
type Verdict string

// The verdicts. An event that can't be judged is delivered, since otherwise it would be lost.
const (
	// Matched and Unmatched events pass the filter, or don't. A field that the payload lacks doesn't match.
	Matched   Verdict = ""
	Unmatched Verdict = "unmatched"
	// Failed is an expression that ended in an error, as by comparing a text with a number.
	Failed Verdict = "evaluation_failed"
	// Costly is an expression that cost more than it may, or whose organization has compiled or evaluated too much lately.
	Costly Verdict = "cost_exceeded"
)

// Event is an event as filters see it.
type Event struct {
	Type, Organization string
	// Owner is empty for every owner's endpoints.
	Owner   string
	Created time.Time
	// Payload is a JSON object.
	Payload []byte
}

// Judge evaluates the filters of endpoints for one event. It is used by one goroutine.
type Judge struct {
	observe   func(Verdict)
	evaluator *expression.Evaluator
	// left is what evaluations may still cost.
	left uint64
}

// Judge returns the Judge of an event. The payload is read only if there is a filter.
func (e *Engine) Judge(event Event) *Judge {
	values := map[string]any{
		"event.type": event.Type, "event.organization_id": event.Organization, "event.owner_id": event.Owner, "event.created_at": event.Created,
	}
	return &Judge{e.observe, e.expressions.Evaluator(event.Organization, values, "event.payload", event.Payload), maxEventCost}
}

// Evaluate returns the verdict of an expression; the empty one matches.
func (j *Judge) Evaluate(expression string) Verdict {
	if expression == "" {
		return Matched
	}
	verdict := j.evaluate(expression)
	j.observe(verdict)
	return verdict
}

func (j *Judge) evaluate(text string) Verdict {
	if j.left < expression.MaxCost {
		return Costly
	}
	result, cost := j.evaluator.Evaluate(text)
	j.left -= min(j.left, cost)
	switch result {
	case expression.True:
		return Matched
	case expression.False, expression.Absent:
		return Unmatched
	case expression.Costly:
		return Costly
	default:
		return Failed
	}
}
