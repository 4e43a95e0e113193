// Package filter decides which endpoints an event is for by its fields. A filter is an expression in CEL, the Common
// Expression Language (https://cel.dev), over the event; package endpoint checks it at registration, package event
// evaluates it at fan-out. The work of both is bounded.
package filter

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/env"
	lru "github.com/hashicorp/golang-lru/v2"

	"switchyard.dev/services/platform/apierr"
)

// The bounds of a filter.
const (
	// MaxSize is the largest expression, in code points.
	MaxSize = 1024
	// maxDepth bounds the nesting of an expression.
	maxDepth = 50
	// assumedSize is how many elements or characters a value of a payload is assumed to have at registration, and
	// maxEstimate the highest estimated cost of an expression then: a loop within a loop, but no third one.
	assumedSize, maxEstimate = 1000, 20_000_000
	// maxCost bounds one evaluation, maxEventCost those of one event for all endpoints. A unit is a step of the
	// expression, ten characters that are read, or a value that is compared.
	maxCost, maxEventCost = 100_000, 1_000_000
	// programs is how many compiled expressions are kept.
	programs = 1000
)

// Engine checks and evaluates filters.
type Engine struct {
	env     *cel.Env
	cache   *lru.Cache[string, cel.Program]
	observe func(Verdict)
}

// New returns an Engine that reports each verdict to observe.
func New(observe func(Verdict)) (*Engine, error) {
	environment, err := cel.NewCustomEnv(
		// A regular expression can take much longer than its cost says.
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeFunctions: []*env.Function{env.NewFunction("matches")}})),
		cel.Variable("event.type", cel.StringType), cel.Variable("event.organization_id", cel.StringType),
		cel.Variable("event.owner_id", cel.StringType), cel.Variable("event.created_at", cel.TimestampType),
		cel.Variable("event.payload", cel.MapType(cel.StringType, cel.DynType)),
		cel.ParserExpressionSizeLimit(MaxSize), cel.ParserRecursionLimit(maxDepth),
	)
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	cache, err := lru.New[string, cel.Program](programs)
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	return &Engine{environment, cache, observe}, nil
}

// Check refuses an expression that can't be compiled or may cost too much. The empty expression, of an endpoint without
// a filter, is accepted.
func (e *Engine) Check(expression string) error {
	if expression == "" {
		return nil
	}
	compiled, err := e.compile(expression)
	if err != nil {
		return err
	}
	estimate, err := e.env.EstimateCost(compiled, sizes{})
	if err != nil || estimate.Max > maxEstimate {
		return apierr.Invalid("filter", "costs too much for large payloads: nest fewer loops")
	}
	return nil
}

func (e *Engine) compile(expression string) (*cel.Ast, error) {
	compiled, issues := e.env.Compile(expression)
	if found := issues.Errors(); len(found) > 0 {
		at := found[0].Location
		return nil, apierr.Invalid("filter", fmt.Sprintf("line %d, column %d: %.200s", at.Line(), at.Column()+1, found[0].Message))
	}
	if out := compiled.OutputType(); out != cel.BoolType && out != cel.DynType {
		return nil, apierr.Invalid("filter", fmt.Sprintf("line 1, column 1: is of type %s, must be bool", out))
	}
	return compiled, nil
}

// program returns the program of an expression, compiled or kept.
func (e *Engine) program(expression string) (cel.Program, error) {
	if p, ok := e.cache.Get(expression); ok {
		return p, nil
	}
	compiled, err := e.compile(expression)
	if err != nil {
		return nil, err
	}
	p, err := e.env.Program(compiled, cel.CostTracking(actual{}), cel.CostLimit(maxCost))
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	e.cache.Add(expression, p)
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

// errPayload is the error of events whose payload can't be read.
var errPayload = errors.New("filter: the payload is no JSON object")
