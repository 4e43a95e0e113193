package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
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
	// Costly is an expression that cost more than it may.
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
	engine *Engine
	event  Event
	// fields is nil until the first filter; err is why there are none.
	fields map[string]any
	err    error
	left   uint64
}

// Judge returns the Judge of an event. The payload is read only if there is a filter.
func (e *Engine) Judge(event Event) *Judge {
	return &Judge{engine: e, event: event, left: maxEventCost}
}

// Evaluate returns the verdict of an expression; the empty one matches.
func (j *Judge) Evaluate(expression string) Verdict {
	if expression == "" {
		return Matched
	}
	verdict := j.evaluate(expression)
	j.engine.observe(verdict)
	return verdict
}

func (j *Judge) evaluate(expression string) Verdict {
	if j.fields == nil && j.err == nil {
		j.fields, j.err = j.event.fields()
	}
	program, err := j.engine.program(expression)
	switch {
	case j.err != nil || err != nil:
		return Failed
	case j.left < maxCost:
		return Costly
	}
	out, details, err := program.Eval(j.fields)
	if details != nil && details.ActualCost() != nil {
		j.left -= min(j.left, *details.ActualCost())
	}
	return verdictOf(out, err)
}

func verdictOf(out ref.Val, err error) Verdict {
	switch {
	case err == nil && out == types.True:
		return Matched
	case err == nil && out == types.False:
		return Unmatched
	case err == nil: // A field of the payload that is no boolean.
		return Failed
	}
	if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok && cancelled.Cause == interpreter.CostLimitExceeded {
		return Costly
	}
	// The library has no error type for it.
	if text := err.Error(); strings.Contains(text, "no such key") || strings.Contains(text, "index out of bounds") {
		return Unmatched
	}
	return Failed
}

// fields returns the variables of expressions.
func (e Event) fields() (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(e.Payload))
	decoder.UseNumber()
	var payload map[string]any
	if err := decoder.Decode(&payload); err != nil || payload == nil {
		return nil, errPayload
	}
	return map[string]any{
		"event.type": e.Type, "event.organization_id": e.Organization, "event.owner_id": e.Owner, "event.created_at": e.Created,
		"event.payload": numbered(payload),
	}, nil
}

// numbered replaces numbers of JSON by those of Go, in place: int64 where that is exact, otherwise float64. The depth
// of a payload is bounded when it is accepted.
func numbered(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			v[name] = numbered(field)
		}
	case []any:
		for i, element := range v {
			v[i] = numbered(element)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // Beyond its range it is infinite.
		return f
	}
	return value
}

// actual is the cost of calls at run time: of all that is read, since the library counts less for some of them.
type actual struct{}

// CallCost implements cost.ActualCostEstimator.
func (actual) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	read := uint64(0)
	for i, arg := range args {
		switch {
		case function == operators.Equals || function == operators.NotEquals || function == operators.In && i == 1 && arg.Type() == types.ListType:
			read += weight(arg.Value())
		default:
			read += text(arg.Value())
		}
	}
	total := 1 + read/10
	return &total
}

func text(value any) uint64 {
	switch v := value.(type) {
	case string:
		return uint64(len(v))
	case []byte:
		return uint64(len(v))
	}
	return 0
}

// weight returns ten for each value within a value, and one for each byte of text.
func weight(value any) uint64 {
	total := uint64(10)
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			total += text(name) + weight(field)
		}
	case []any:
		for _, element := range v {
			total += weight(element)
		}
	case []ref.Val:
		for _, element := range v {
			total += weight(element.Value())
		}
	case map[ref.Val]ref.Val:
		for name, field := range v {
			total += weight(name.Value()) + weight(field.Value())
		}
	default:
		total += text(value)
	}
	return total
}
