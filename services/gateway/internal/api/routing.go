package api

import (
	"context"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Policies is the routing policy in force.
type Policies interface {
	// Reload reads the policy again; see policy.Reloaded.
	Reload(ctx context.Context) (policy.Reloaded, error)
	// Present returns the policy in force and the ranking of its candidates.
	Present() (*policy.Policy, policy.Version, []routing.RankedCandidate)
}

// Steering is the operators' overrides of the policy.
type Steering interface {
	State(ctx context.Context) (steering.State, error)
	// Set applies a change; see steering.Setting.Apply.
	Set(ctx context.Context, kind steering.Kind, c steering.Change) (steering.Setting, error)
	// Arms returns the results of a canary's arms.
	Arms(ctx context.Context, revision int) (steering.Arms, error)
}

// routingServer serves the operators' control of routing.
type routingServer struct {
	gatewayv1.UnimplementedRoutingServiceServer

	policies Policies
	steering Steering
	catalog  Catalog
}

// ReloadPolicy reloads the policy on every replica.
func (s *routingServer) ReloadPolicy(ctx context.Context, _ *gatewayv1.ReloadPolicyRequest) (*gatewayv1.ReloadPolicyResponse, error) {
	done, err := s.policies.Reload(ctx)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.ReloadPolicyResponse{
		Changed: done.Changed, PolicyVersion: done.Now.Hash, PreviousPolicyVersion: done.Before.Hash,
		LoadedAt: timestamppb.New(done.Now.LoadedAt), Warnings: done.Warnings, Changes: done.Changes,
		Providers: done.Now.Providers, Models: int32(done.Now.Models),
	}, nil
}

// GetRoutingConfig returns everything that routing depends on.
func (s *routingServer) GetRoutingConfig(ctx context.Context, _ *gatewayv1.GetRoutingConfigRequest) (*gatewayv1.RoutingConfig, error) {
	state, err := s.steering.State(ctx)
	if err != nil {
		return nil, fmt.Errorf("routing config: %w", err)
	}
	canary, err := s.canary(ctx, state.Canary)
	if err != nil {
		return nil, err
	}
	policy, version, ranking := s.policies.Present()
	out := &gatewayv1.RoutingConfig{
		PolicyVersion: version.Hash, PolicyLoadedAt: optionalTime(version.LoadedAt), DefaultGoal: string(policy.DefaultGoal()),
		Canary: canary, Pin: fromPin(state.Pin), ProviderRanks: fromRanking(ranking), ApprovalTools: policy.ApprovalTools(),
	}
	for _, operation := range provider.Operations() {
		steps := policy.Ladder(operation)
		if len(steps) == 0 && !provider.Contracted().Has(operation) {
			continue
		}
		ladder := &gatewayv1.FallbackLadder{Operation: string(operation)}
		for _, step := range steps {
			ladder.Steps = append(ladder.Steps, &gatewayv1.RouteTarget{Provider: step.Provider, Model: step.Model})
		}
		out.FallbackLadder = append(out.FallbackLadder, ladder)
	}
	for _, access := range policy.AccessRules() {
		rule := &gatewayv1.ClassificationRule{DataClassification: access.Classification, AllowedProviders: access.Providers}
		if access.Organizations != "*" {
			rule.OrganizationId = access.Organizations
		}
		out.DataClassifications = append(out.DataClassifications, rule)
	}
	return out, nil
}

// SetPin routes every request to one provider.
func (s *routingServer) SetPin(ctx context.Context, m *gatewayv1.SetPinRequest) (*gatewayv1.PinStatus, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	target, err := s.target(m.GetProvider(), m.GetModel())
	if err != nil {
		return nil, err
	}
	return s.pin(ctx, m.GetReason(), m.ExpectedVersion, steering.Setting{Target: target})
}

// ClearPin removes the pin.
func (s *routingServer) ClearPin(ctx context.Context, m *gatewayv1.ClearPinRequest) (*gatewayv1.PinStatus, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	return s.pin(ctx, m.GetReason(), m.ExpectedVersion, steering.Setting{})
}

func (s *routingServer) pin(ctx context.Context, reason string, expected *int32, to steering.Setting) (*gatewayv1.PinStatus, error) {
	setting, err := s.set(ctx, steering.KindPin, reason, expected, to)
	if err != nil {
		return nil, err
	}
	return fromPin(setting), nil
}

func (s *routingServer) set(ctx context.Context, kind steering.Kind, reason string, expected *int32, to steering.Setting) (steering.Setting, error) {
	change := steering.Change{To: to}
	change.To.Since, change.To.By, change.To.Reason = present(), actor(ctx), reason
	if expected != nil {
		change.Expected = new(int(*expected))
	}
	setting, err := s.steering.Set(ctx, kind, change)
	if err != nil {
		return setting, fmt.Errorf("routing: %w", err)
	}
	return setting, nil
}

// target returns the target of an override: a configured provider and a model of it that is not retired. An empty model
// is each request's own.
func (s *routingServer) target(of, model string) (provider.Target, error) {
	policy, _, _ := s.policies.Present()
	name, ok := policy.Canonical(of)
	if !ok {
		return provider.Target{}, apierr.New(apierr.KindInvalid, routing.ReasonProviderUnknown, fmt.Sprintf("provider: no provider %s is configured", screen.Quote(of)))
	}
	target := provider.Target{Provider: name, Model: model}
	if model == "" {
		return target, nil
	}
	if len(policy.Serves(target)) == 0 {
		return target, apierr.Invalid("model", fmt.Sprintf("the provider %s has no model %s", name, screen.Quote(model)))
	}
	if life := s.catalog.Registry().Lifecycle(target); life != nil && life.IsRetired(time.Now()) {
		return target, apierr.New(apierr.KindInvalid, routing.ReasonModelRetired, fmt.Sprintf("model: %s is retired", target))
	}
	return target, nil
}

// GetPinStatus returns the pin.
func (s *routingServer) GetPinStatus(ctx context.Context, _ *gatewayv1.GetPinStatusRequest) (*gatewayv1.PinStatus, error) {
	state, err := s.steering.State(ctx)
	if err != nil {
		return nil, fmt.Errorf("pin: %w", err)
	}
	return fromPin(state.Pin), nil
}

func fromPin(pin steering.Setting) *gatewayv1.PinStatus {
	return &gatewayv1.PinStatus{
		Pinned: pin.IsSet(), Provider: toNullable(pin.Provider), Model: toNullable(pin.Model), Since: optionalTime(pin.Since),
		SetBy: toNullable(pin.By), Reason: toNullable(pin.Reason), Version: int32(pin.Revision),
	}
}

// SetCanary routes a share of the requests to one provider or model.
func (s *routingServer) SetCanary(ctx context.Context, m *gatewayv1.SetCanaryRequest) (*gatewayv1.CanaryStatus, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	if m.Percentage == nil || math.IsNaN(m.GetPercentage()) {
		return nil, apierr.Invalid("percentage", "is required, from 0 to 100")
	}
	target, err := s.target(m.GetProvider(), m.GetModel())
	if err != nil {
		return nil, err
	}
	to := steering.Setting{Target: target, Percentage: m.GetPercentage(), Sticky: steering.ByOrganization}
	if m.GetStickyBy() != "" {
		to.Sticky = steering.Stickiness(m.GetStickyBy())
	}
	setting, err := s.set(ctx, steering.KindCanary, m.GetReason(), m.ExpectedVersion, to)
	if err != nil {
		return nil, err
	}
	return s.canary(ctx, setting)
}

// StopCanary routes all requests to the stable candidates.
func (s *routingServer) StopCanary(ctx context.Context, m *gatewayv1.StopCanaryRequest) (*gatewayv1.CanaryStatus, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	setting, err := s.set(ctx, steering.KindCanary, m.GetReason(), m.ExpectedVersion, steering.Setting{})
	if err != nil {
		return nil, err
	}
	return s.canary(ctx, setting)
}

// GetCanaryStatus returns the canary and the results of both arms.
func (s *routingServer) GetCanaryStatus(ctx context.Context, _ *gatewayv1.GetCanaryStatusRequest) (*gatewayv1.CanaryStatus, error) {
	state, err := s.steering.State(ctx)
	if err != nil {
		return nil, fmt.Errorf("canary: %w", err)
	}
	return s.canary(ctx, state.Canary)
}

func (s *routingServer) canary(ctx context.Context, c steering.Setting) (*gatewayv1.CanaryStatus, error) {
	out := &gatewayv1.CanaryStatus{
		Active: c.IsSet(), Provider: toNullable(c.Provider), Model: toNullable(c.Model), Percentage: c.Percentage, StickyBy: toNullable(string(c.Sticky)),
		Since: optionalTime(c.Since), SetBy: toNullable(c.By), Reason: toNullable(c.Reason), Version: int32(c.Revision),
	}
	if !c.IsSet() {
		return out, nil
	}
	arms, err := s.steering.Arms(ctx, c.Revision)
	if err != nil {
		return nil, fmt.Errorf("canary: %w", err)
	}
	out.Arms = []*gatewayv1.CanaryArm{fromArm("canary", arms.Canary), fromArm("stable", arms.Stable)}
	return out, nil
}

func fromArm(name string, a steering.Arm) *gatewayv1.CanaryArm {
	return &gatewayv1.CanaryArm{
		Arm: name, Requests: clamp(a.Requests), Failed: clamp(a.Failed), FailedOver: clamp(a.FailedOver),
		ErrorRate: a.ErrorRate(), MeanLatencyMs: inMilliseconds(a.MeanLatency()),
	}
}
