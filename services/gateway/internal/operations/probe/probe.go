// Package probe sends real requests to models for operators: a golden set with a verdict, the same question many times,
// a liveness check of each default model. Probes cost money. Therefore one probe runs at a time over all replicas,
// under the budget of an organization of its own, and each reports its cost. The calls go through package inference and
// are marked as probes in the ledger. Package api starts probes; internal/postgres stores the lease.
package probe

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/platform/telemetry"
)

// Reasons of refused probes.
const (
	ReasonRunning        apierr.Reason = "probe_running"
	ReasonBudgetExceeded apierr.Reason = "budget_exceeded"
)

// Kind of a probe.
type Kind string

// The kinds.
const (
	KindCanary      Kind = "canary"
	KindConsistency Kind = "consistency"
	KindLiveness    Kind = "liveness"
)

// Engine serves the calls.
type Engine interface {
	Chat(ctx context.Context, r *inference.Request) (*inference.Completion, error)
	Embed(ctx context.Context, r *inference.Request) (*inference.Embedded, error)
}

// Lease is the exclusive right to run a probe, over all replicas.
type Lease interface {
	// Take acquires the lease for the duration span; it returns false if another holder has it.
	Take(ctx context.Context, holder uuid.UUID, kind Kind, span time.Duration) (bool, error)
	// Prolong extends the lease; it returns false if the lease was lost.
	Prolong(ctx context.Context, holder uuid.UUID, span time.Duration) (bool, error)
	Release(ctx context.Context, holder uuid.UUID) error
	// Running returns the kind and start of the probe that has the lease; the zero kind is none.
	Running(ctx context.Context) (kind Kind, since time.Time, err error)
}

// Budget is the ceiling of the organization that pays for probes. Its worst case is reserved like that of any other.
type Budget interface {
	Spend(ctx context.Context, id string, now time.Time) (organization.Spend, error)
	SetBudget(ctx context.Context, id string, b organization.Budget, reason string) error
}

const (
	// leaseTime is how long the lease of a replica that died lasts. A running probe extends it every third of that.
	leaseTime = 15 * time.Second
	// storeTime bounds one call to the lease's store.
	storeTime = 3 * time.Second
	// parallelCalls is how many calls of one probe are in flight at a time.
	parallelCalls = 4
)

// Options configure a Prober. All are required.
type Options struct {
	Engine Engine
	Lease  Lease
	Budget Budget
	// Organization pays, up to CeilingCents a day unless an operator has set another ceiling for it.
	Organization string
	CeilingCents float64
	// Golden returns the golden set.
	Golden func() (*Golden, error)
	// Defaults returns the default models of the policy.
	Defaults func() []policy.Default
	Log      *slog.Logger
}

// Prober runs probes. It is safe for concurrent use.
type Prober struct{ Options }

// New returns a Prober.
func New(o Options) *Prober { return &Prober{o} }

// Cap sets the ceiling of the paying organization if it has none.
func (p *Prober) Cap(ctx context.Context) error {
	spend, err := p.Budget.Spend(ctx, p.Organization, time.Now())
	if err != nil {
		return fmt.Errorf("budget of probes: %w", err)
	}
	if spend.Organization.Budget.CeilingCents > 0 {
		return nil
	}
	ceiling := organization.Budget{CeilingCents: p.CeilingCents, Period: organization.PeriodDay}
	if err := p.Budget.SetBudget(ctx, p.Organization, ceiling, "probes never run without a ceiling"); err != nil {
		return fmt.Errorf("budget of probes: %w", err)
	}
	return nil
}

// alone runs a probe while this replica holds the lease, provided that there is budget left.
func (p *Prober) alone(ctx context.Context, kind Kind, run func(ctx context.Context) error) error {
	if err := p.Cap(ctx); err != nil {
		return err
	}
	spend, err := p.Budget.Spend(ctx, p.Organization, time.Now())
	if err != nil {
		return fmt.Errorf("budget of probes: %w", err)
	}
	if left, limited := spend.Remaining(); limited && left <= 0 {
		return apierr.New(apierr.KindForbidden, ReasonBudgetExceeded, fmt.Sprintf(
			"the budget of probes is spent: %s of %s cents", amount.Nearest(spend.SpentCents), amount.Nearest(spend.Organization.Budget.CeilingCents)))
	}
	holder := uuid.New()
	taken, err := p.Lease.Take(ctx, holder, kind, leaseTime)
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	if !taken {
		return p.running(ctx)
	}
	defer p.release(ctx, holder)
	ctx, cancel := context.WithCancelCause(ctx)
	var group errgroup.Group
	done := make(chan struct{})
	group.Go(panics.Guard(func() error {
		p.hold(ctx, holder, done, cancel)
		return nil
	}))
	err = panics.Call(func() error { return run(ctx) })
	close(done)
	if lost := group.Wait(); err == nil {
		err = lost
	}
	cancel(nil)
	return err
}

// errLost ends a probe whose lease another replica may have acquired.
var errLost = apierr.Unavailable("the probe lost its lease and was stopped", nil)

// hold extends the lease until the probe is done, and ends the probe when the lease is lost.
func (p *Prober) hold(ctx context.Context, holder uuid.UUID, done <-chan struct{}, end context.CancelCauseFunc) {
	ticker := time.NewTicker(leaseTime / 3)
	defer ticker.Stop()
	for held := time.Now(); ; {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		bounded, cancel := context.WithTimeout(ctx, storeTime)
		kept, err := p.Lease.Prolong(bounded, holder, leaseTime)
		cancel()
		switch {
		case err == nil && kept:
			held = time.Now()
		case err == nil, time.Since(held) >= leaseTime-storeTime:
			end(errLost)
			return
		}
	}
}

func (p *Prober) release(ctx context.Context, holder uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	if err := p.Lease.Release(ctx, holder); err != nil {
		p.Log.WarnContext(ctx, "releasing the lease of a probe failed; it expires by itself", slog.String("error", err.Error()))
	}
}

func (p *Prober) running(ctx context.Context) error {
	text := "another probe is running"
	if kind, since, err := p.Lease.Running(ctx); err == nil && kind != "" {
		text += fmt.Sprintf(": %s, since %s", kind, since.UTC().Format(time.RFC3339))
	}
	return apierr.New(apierr.KindConflict, ReasonRunning, text)
}

// question is one call of a probe.
type question struct {
	provider, model string
	operation       provider.Operation
	chat            provider.Chat
	input           string
	number          int
}

// request returns a question as a request of the pipeline: with the fleet's key, at the named model and no other, and
// never from the cache.
func (p *Prober) request(ctx context.Context, q question) *inference.Request {
	return &inference.Request{
		ID: fmt.Sprintf("%s-%d", telemetry.RequestID(ctx), q.number), Organization: p.Organization, Service: caller.From(ctx).Name,
		Route: routing.Request{
			Operation: q.operation, Organization: p.Organization, Provider: q.provider, Model: cmp.Or(q.model, policy.DefaultModel),
		},
		Byok: keyring.ModeFleet, BypassCache: true, Probe: true, Chat: q.chat, Raw: q.raw(),
	}
}

// raw is the question as a caller of the JSON face would write it, for its trace.
func (q question) raw() trace.RawRequest {
	type turn struct {
		Role    provider.Role `json:"role"`
		Content string        `json:"content"`
	}
	body := struct {
		Provider  string `json:"provider,omitzero"`
		Model     string `json:"model,omitzero"`
		Messages  []turn `json:"messages,omitzero"`
		Input     string `json:"input,omitzero"`
		MaxTokens int    `json:"max_tokens,omitzero"`
	}{Provider: q.provider, Model: q.model, Input: q.input, MaxTokens: q.chat.MaxTokens}
	for _, m := range q.chat.Messages {
		body.Messages = append(body.Messages, turn{m.Role, m.Text()})
	}
	return trace.RawRequest{Form: string(q.operation), Encode: func() (json.RawMessage, error) { return json.Marshal(body) }}
}

// ask makes one chat call and returns its request ID and how long it took.
func (p *Prober) ask(ctx context.Context, q question) (completion *inference.Completion, id string, took time.Duration, err error) {
	r, start := p.request(ctx, q), time.Now()
	completion, err = p.Engine.Chat(ctx, r)
	return completion, r.ID, time.Since(start), err
}

// turns returns the messages of a prompt.
func turns(system, prompt string) []provider.Message {
	var messages []provider.Message
	if system != "" {
		messages = append(messages, provider.Message{Role: provider.RoleSystem, Content: []provider.Part{{Text: system}}})
	}
	return append(messages, provider.Message{Role: provider.RoleUser, Content: []provider.Part{{Text: prompt}}})
}

// add sums up what calls used; who served is that of the first.
func add(total *ledger.Report, r ledger.Report) {
	total.Provider, total.Model = cmp.Or(total.Provider, r.Provider), cmp.Or(total.Model, r.Model)
	total.Prompt += r.Prompt
	total.Completion += r.Completion
	total.Usage.Add(r.Usage)
	total.Cost += r.Cost
	total.Estimated = total.Estimated || r.Estimated
}
