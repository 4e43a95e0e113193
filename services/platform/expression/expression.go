// Package expression compiles and evaluates expressions in CEL, the Common Expression Language (https://cel.dev), that
// customers and operators write over JSON from outside. The work of compiling and of each evaluation is bounded. It
// leaves out the function matches, since a regular expression can take much longer than its cost says.
package expression

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/env"
)

// The bounds of an expression.
const (
	// MaxSize is the largest expression, in code points.
	MaxSize = 1024
	// MaxCost is the highest cost of one evaluation; it takes about 2 ms of processor time. A unit is a step of the
	// expression, ten characters read or one value compared, and takes at most 100 ns. Calls that take longer cost more.
	MaxCost = 20_000
	// maxDepth bounds the nesting of an expression.
	maxDepth = 50
	// maxMade is how many lists, maps and loops an expression may hold, without lists and maps of constants.
	maxMade = 32
	// assumedSize is how many elements or characters a value is assumed to have when an expression is compiled, and
	// maxEstimate the highest estimated cost of an expression then: a loop within a loop, but no third one.
	assumedSize, maxEstimate = 1000, 20_000_000
)

// Kind is the kind of a variable.
type Kind int

// The kinds: a text, a moment (time.Time), and a JSON object as Object returns it.
const (
	Text Kind = iota
	Time
	JSON
)

// Variable is a variable that expressions may use. Its name may have dots, such as "event.type".
type Variable struct {
	Name string
	Kind Kind
}

func (v Variable) option() cel.EnvOption {
	switch v.Kind {
	case Time:
		return cel.Variable(v.Name, cel.TimestampType)
	case JSON:
		return cel.Variable(v.Name, cel.MapType(cel.StringType, cel.DynType))
	default:
		return cel.Variable(v.Name, cel.StringType)
	}
}

// Engine compiles expressions over the same variables. Safe for concurrent use.
type Engine struct {
	env  *cel.Env
	kept *programs
}

// New returns an Engine for expressions over variables. The error is one of the variables' names.
func New(variables ...Variable) (*Engine, error) {
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeFunctions: []*env.Function{env.NewFunction("matches")}})),
		cel.ParserExpressionSizeLimit(MaxSize), cel.ParserRecursionLimit(maxDepth),
	}
	for _, v := range variables {
		options = append(options, v.option())
	}
	environment, err := cel.NewCustomEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("expression: %w", err)
	}
	return &Engine{environment, newPrograms()}, nil
}

// Error is the error of an expression that can't be compiled or may cost too much: what is wrong, with its place where
// it has one. It may hold a part of the expression.
type Error struct{ Rule string }

// Error implements error.
func (e *Error) Error() string { return e.Rule }

// errCostly is the error of an expression that may cost too much.
var errCostly = &Error{"costs too much for large values: nest fewer loops"}

// Compile returns the program of an expression. The error is an *Error if the expression can't be compiled, isn't a
// boolean, or may cost too much for large values.
func (e *Engine) Compile(text string) (*Program, error) {
	compiled, err := e.compile(text)
	if err != nil {
		return nil, err
	}
	if estimate, err := e.env.EstimateCost(compiled, sizes{}); err != nil || estimate.Max > maxEstimate {
		return nil, errCostly
	}
	return e.program(compiled)
}

func (e *Engine) compile(text string) (*cel.Ast, error) {
	parsed, issues := e.env.Parse(text)
	if err := errorOf(issues); err != nil {
		return nil, err
	}
	if err := checkTypes(parsed); err != nil {
		return nil, err
	}
	compiled, issues := e.env.Check(parsed)
	if err := errorOf(issues); err != nil {
		return nil, err
	}
	if out := compiled.OutputType(); out != cel.BoolType && out != cel.DynType {
		return nil, &Error{fmt.Sprintf("line 1, column 1: is of type %s, must be bool", out)}
	}
	return compiled, nil
}

// errorOf returns the first issue that the library has found.
func errorOf(issues *cel.Issues) error {
	found := issues.Errors()
	if len(found) == 0 {
		return nil
	}
	at := found[0].Location
	return &Error{fmt.Sprintf("line %d, column %d: %.200s", at.Line(), at.Column()+1, found[0].Message)}
}

func (e *Engine) program(compiled *cel.Ast) (*Program, error) {
	program, err := e.env.Program(compiled, cel.CostTracking(actual{}), cel.CostLimit(MaxCost), cel.CustomDecoratorV2(countFirst))
	if err != nil {
		return nil, fmt.Errorf("expression: %w", err)
	}
	p := &Program{program: program, names: make(map[string]bool)}
	for _, reference := range compiled.NativeRep().ReferenceMap() {
		p.names[reference.Name] = true
	}
	return p, nil
}

// sizes assumes a size for values whose size an expression doesn't say.
type sizes struct{}

// EstimateSize implements cost.Estimator.
func (sizes) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	if n.ComputedSize() != nil {
		return nil
	}
	size := cost.RangedSizeEstimate(0, assumedSize)
	return &size
}

// EstimateCallCost implements cost.Estimator.
func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
