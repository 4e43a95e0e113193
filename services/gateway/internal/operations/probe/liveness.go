package probe

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

const (
	// livenessTimeout is how long a model may take to answer.
	livenessTimeout = 30 * time.Second
	// livenessTokens bounds the answer; some models think before the first word.
	livenessTokens = 64
	// parallelLiveness is how many models are checked at a time.
	parallelLiveness = 16
	livenessPrompt   = "Answer with the one word: ok"
)

// LivenessResult reports whether a model answers.
type LivenessResult struct {
	policy.Default
	Alive   bool
	Latency time.Duration
	// Class and Code of the failure; empty if it answered.
	Class apierr.Class
	Code  string
	// Usage is nil when nothing was billed.
	Usage *ledger.Report
}

// Liveness is the result for all default models.
type Liveness struct {
	Results  []LivenessResult
	AllAlive bool
	Cost     price.Pico
	Checked  time.Time
}

// Liveness asks each default model one cheap question, in parallel; an empty vendor is all of them.
func (p *Prober) Liveness(ctx context.Context, vendor string) (*Liveness, error) {
	l := &Liveness{Checked: time.Now(), AllAlive: true}
	for _, d := range p.Defaults() {
		if vendor == "" || d.Provider == vendor {
			l.Results = append(l.Results, LivenessResult{Default: d})
		}
	}
	if len(l.Results) == 0 {
		return nil, apierr.NotFound("provider: a default model of it")
	}
	refusals := make([]error, len(l.Results))
	err := p.alone(ctx, KindLiveness, func(ctx context.Context) error {
		var group errgroup.Group
		group.SetLimit(parallelLiveness)
		for i := range l.Results {
			group.Go(panics.Guard(func() error {
				refusals[i] = p.checkLiveness(ctx, &l.Results[i], i+1)
				return nil
			}))
		}
		if err := group.Wait(); err != nil { // Only a panic: refusals are collected.
			return err
		}
		return ended(ctx, refusals)
	})
	if err != nil {
		return nil, err
	}
	for i := range l.Results {
		l.AllAlive = l.AllAlive && l.Results[i].Alive
		if l.Results[i].Usage != nil {
			l.Cost += l.Results[i].Usage.Cost
		}
	}
	return l, nil
}

// checkLiveness asks one model and stores the result in s.
func (p *Prober) checkLiveness(ctx context.Context, s *LivenessResult, number int) error {
	ctx, cancel := context.WithTimeout(ctx, livenessTimeout)
	defer cancel()
	q := question{provider: s.Provider, model: s.Model, operation: s.Operation, number: number}
	if s.Operation == provider.OperationEmbeddings {
		q.input = livenessPrompt
	} else {
		q.chat = provider.Chat{MaxTokens: livenessTokens, Messages: turns("", livenessPrompt)}
	}
	r, start := p.request(ctx, q), time.Now()
	var err error
	if s.Operation == provider.OperationEmbeddings {
		r.Embedding.Input = []string{q.input}
		var embedded *inference.Embedded
		if embedded, err = p.Engine.Embed(ctx, r); err == nil {
			s.Usage = &embedded.Report
		}
	} else {
		var completion *inference.Completion
		if completion, err = p.Engine.Chat(ctx, r); err == nil {
			s.Usage = &completion.Report
		}
	}
	s.Latency, s.Alive = time.Since(start), err == nil
	if err != nil {
		s.Class, s.Code = reasonOf(err)
	}
	return err
}

// reasonOf returns the class of a failure and its short code: the vendor's own where it has one.
func reasonOf(err error) (apierr.Class, string) {
	e := apierr.From(err)
	if of, ok := errors.AsType[*provider.Error](err); ok && trace.IsShortCode(of.Code) {
		return e.ErrorClass(), of.Code
	}
	return e.ErrorClass(), string(e.Reason)
}
