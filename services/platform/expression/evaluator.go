package expression

import (
	"errors"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Check compiles an organization's expression and keeps the program for its evaluations. The error is the one of
// [Engine.Compile], or an *apierr.Error (429 with Retry-After) if the organization has compiled too much lately.
func (e *Engine) Check(organization, text string) error {
	if !e.kept.permitCompile(organization, text, time.Now()) {
		busy := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "too many expressions were compiled lately; try again later")
		busy.RetryAfter = time.Second
		return busy
	}
	program, err := e.Compile(text)
	if err != nil {
		return err
	}
	e.kept.add(organization, text, program)
	return nil
}

// Evaluator evaluates an organization's expressions over the same values. It is used by one goroutine.
type Evaluator struct {
	engine       *Engine
	organization string
	values       map[string]any
	// variable has the JSON object of text, once it has been parsed. err is why there is none.
	variable string
	text     []byte
	parsed   bool
	err      error
}

// Evaluator returns an Evaluator of an organization's expressions. values holds the values of all variables but one, which
// is the JSON object of a text. The text is parsed for the first expression; its depth must be bounded.
func (e *Engine) Evaluator(organization string, values map[string]any, variable string, text []byte) *Evaluator {
	return &Evaluator{engine: e, organization: organization, values: values, variable: variable, text: text}
}

// Evaluate returns the result of an expression that Check has accepted before, and what it cost. The result is Costly, too,
// if the organization's expressions have lately taken more than half of the processors, or if the program is not in memory
// and the organization has compiled too much. An expression that can't be compiled is Failed.
func (v *Evaluator) Evaluate(text string) (result Result, cost uint64) {
	kept := v.engine.kept
	program, err := v.engine.programOf(v.organization, text)
	switch {
	case errors.Is(err, errBusy) || !kept.permitEvaluation(v.organization, time.Now()):
		return Costly, 0
	case err != nil || v.parse() != nil:
		return Failed, 0
	}
	result, cost = program.Evaluate(v.values)
	kept.recordEvaluation(v.organization, cost, time.Now())
	return result, cost
}

// parse parses the JSON object, unless it has been parsed before.
func (v *Evaluator) parse() error {
	if v.parsed {
		return v.err
	}
	v.parsed = true
	v.values[v.variable], v.err = Object(v.text)
	v.engine.kept.recordEvaluation(v.organization, uint64(len(v.text))*costParsedBytes/100, time.Now())
	return v.err
}

// costParsedBytes is what parsing a hundred bytes of JSON costs at most, in the units of MaxCost.
const costParsedBytes = 50

var errBusy = errors.New("expression: the organization has compiled too much lately")

// programOf returns a program from memory, or compiles it. It doesn't estimate the cost again, so that stored expressions
// stay valid when the estimate changes; an evaluation is bounded anyway.
func (e *Engine) programOf(organization, text string) (*Program, error) {
	if p := e.kept.find(organization, text); p != nil {
		return p, nil
	}
	if !e.kept.permitCompile(organization, text, time.Now()) {
		return nil, errBusy
	}
	compiled, err := e.compile(text)
	if err != nil {
		return nil, err
	}
	p, err := e.program(compiled)
	if err != nil {
		return nil, err
	}
	e.kept.add(organization, text, p)
	return p, nil
}
