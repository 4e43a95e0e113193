package api

import (
	"context"
	"errors"
	"time"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/reconcile"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/routing"
)

// The dependencies with which TestUnimplementedMethods serves the operators' methods.

func noPrices() *price.Table { return &price.Table{} }

func (noPolicies) Present() (*policy.Policy, policy.Version, []routing.RankedCandidate) {
	return &policy.Policy{}, policy.Version{}, nil
}

type noApprovals struct{ Approvals }

func (noApprovals) ByToken(context.Context, [32]byte) (approval.Approval, approval.Token, error) {
	return approval.Approval{}, approval.Token{}, errors.New("none")
}

func (noApprovals) DecideByToken(context.Context, [32]byte, approval.TokenDecision, time.Time, *audit.Entry) (approval.Approval, approval.Token, error) {
	return approval.Approval{}, approval.Token{}, errors.New("none")
}

type noSteering struct{ Steering }

func (noSteering) State(context.Context) (steering.State, error) {
	return steering.State{}, errors.New("none")
}

func (noSteering) Set(context.Context, steering.Kind, steering.Change) (steering.Setting, error) {
	return steering.Setting{}, errors.New("none")
}

type noCatalog struct{ Catalog }

func (noCatalog) Registry() *catalog.Registry {
	return catalog.NewRegistry(catalog.New(&policy.Policy{}, &price.Table{}, &catalog.File{}), nil)
}

type noStatus struct{ Status }

func (noStatus) Providers() []status.Provider      { return nil }
func (noStatus) Availability() status.Availability { return status.Availability{} }
func (noStatus) Fleet() status.Fleet               { return status.Fleet{} }

type noReconciler struct{ Reconciler }

func (noReconciler) List(context.Context, int64, int) ([]reconcile.Result, error) {
	return nil, errors.New("none")
}
