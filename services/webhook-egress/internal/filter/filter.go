// Package filter decides which endpoints an event is for by its fields. A filter is an expression in CEL, the Common
// Expression Language (https://cel.dev), over the event; package endpoint checks it at registration, package event
// evaluates it at fan-out. The work of both is bounded.
package filter

import (
	"errors"
	"fmt"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/expression"
)

// MaxSize is the largest expression, in code points.
const MaxSize = expression.MaxSize

// maxEventCost bounds the evaluations of one event for all endpoints together.
const maxEventCost = 10 * expression.MaxCost

// Engine checks and evaluates filters.
type Engine struct {
	expressions *expression.Engine
	observe     func(Verdict)
}

// New returns an Engine that reports each verdict to observe.
func New(observe func(Verdict)) (*Engine, error) {
	expressions, err := expression.New(
		expression.Variable{Name: "event.type"}, expression.Variable{Name: "event.organization_id"},
		expression.Variable{Name: "event.owner_id"}, expression.Variable{Name: "event.created_at", Kind: expression.Time},
		expression.Variable{Name: "event.payload", Kind: expression.JSON},
	)
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	return &Engine{expressions, observe}, nil
}

// Check refuses an organization's expression that can't be compiled or may cost too much, and all of its expressions (429)
// while it has compiled too many. The empty expression, of an endpoint without a filter, is accepted.
func (e *Engine) Check(organization, text string) error {
	if text == "" {
		return nil
	}
	err := e.expressions.Check(organization, text)
	if wrong, ok := errors.AsType[*expression.Error](err); ok {
		return apierr.Invalid("filter", wrong.Rule)
	}
	return err
}
