package expression

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Result is the result of an evaluation.
type Result int

// The results.
const (
	// Failed is an expression that ended in an error, as by comparing a text with a number, or whose value is no boolean.
	Failed Result = iota
	// Absent is one that read a member or an element that the value lacks.
	Absent
	// Costly is one that cost more than MaxCost.
	Costly
	False
	True
)

// Program is a compiled expression. Safe for concurrent use.
type Program struct {
	program cel.Program
	names   map[string]bool
}

// Uses reports whether the expression refers to a variable.
func (p *Program) Uses(variable string) bool { return p.names[variable] }

// Evaluate returns the result for values of the variables, and what it cost. A variable without a value is an error of
// the expressions that use it.
func (p *Program) Evaluate(values map[string]any) (result Result, cost uint64) {
	out, details, err := p.program.Eval(values)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	return resultOf(out, err), cost
}

func resultOf(out ref.Val, err error) Result {
	switch {
	case err == nil && out == types.True:
		return True
	case err == nil && out == types.False:
		return False
	case err == nil: // A member that is no boolean.
		return Failed
	}
	if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok && cancelled.Cause == interpreter.CostLimitExceeded {
		return Costly
	}
	// The library has no error type for it.
	if text := err.Error(); strings.Contains(text, "no such key") || strings.Contains(text, "index out of bounds") {
		return Absent
	}
	return Failed
}

// ErrNoObject is the error of a text that is not a JSON object.
var ErrNoObject = errors.New("expression: the value is no JSON object")

// Object returns a JSON object as the value of a variable. Its numbers are int64, uint64 or float64, as number returns
// them. The depth of the text must be bounded. The error is ErrNoObject.
func Object(text []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil || object == nil {
		return nil, ErrNoObject
	}
	numbered(object)
	return object, nil
}

// numbered replaces numbers of JSON by those of Go, in place.
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
		return number(string(v))
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
			read += weight(arg)
		default:
			read += text(arg)
		}
	}
	total := 1 + read/10 + extra(function, len(args))
	return &total
}

// Extra costs of calls that take longer than reading their arguments.
const (
	costParsed = 10  // a text that is read as a time, a duration or a number
	costZone   = 800 // a time zone that is looked up by its name
)

// extra returns the cost of a call in addition to reading its arguments.
func extra(function string, args int) uint64 {
	switch function {
	case overloads.TypeConvertTimestamp, overloads.TypeConvertDuration, overloads.TypeConvertDouble, overloads.TypeConvertString,
		overloads.TypeConvertInt, overloads.TypeConvertUint:
		return costParsed
	case overloads.TimeGetFullYear, overloads.TimeGetMonth, overloads.TimeGetDayOfYear, overloads.TimeGetDayOfMonth, overloads.TimeGetDate,
		overloads.TimeGetDayOfWeek, overloads.TimeGetHours, overloads.TimeGetMinutes, overloads.TimeGetSeconds, overloads.TimeGetMilliseconds:
		if args > 1 {
			return costZone
		}
	}
	return 0
}

// text returns the length of a text in bytes; 0 for other values.
func text(value ref.Val) uint64 {
	switch v := value.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	}
	return 0
}
