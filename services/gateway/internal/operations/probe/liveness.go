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
	// lifeTime is how long a model may take for its sign of life.
	lifeTime = 30 * time.Second
	// lifeTokens is room for the answer; some models think before the first word.
	lifeTokens = 64
	// parallelSigns are waited for at a time.
	parallelSigns = 16
	lifePrompt    = "Answer with the one word: ok"
)

// Sign is whether a model lives.
type Sign struct {
	policy.Default
	Alive   bool
	Latency time.Duration
	// Class and Code of the failure; empty when it answered.
	Class apierr.Class
	Code  string
	// Usage is nil when nothing was billed.
	Usage *ledger.Report
}

// Liveness are the signs of all default models.
type Liveness struct {
	Signs    []Sign
	AllAlive bool
	Cost     price.Pico
	Checked  time.Time
}

// Liveness asks the default models one cheap question each, in parallel; an empty
// vendor is all of them.
func (p *Prober) Liveness(ctx context.Context, vendor string) (*Liveness, error) {
	l := &Liveness{Checked: time.Now(), AllAlive: true}
	for _, d := range p.Defaults() {
		if vendor == "" || d.Provider == vendor {
			l.Signs = append(l.Signs, Sign{Default: d})
		}
	}
	if len(l.Signs) == 0 {
		return nil, apierr.NotFound("provider: a default model of it")
	}
	refusals := make([]error, len(l.Signs))
	err := p.alone(ctx, KindLiveness, func(ctx context.Context) error {
		var group errgroup.Group
		group.SetLimit(parallelSigns)
		for i := range l.Signs {
			group.Go(panics.Guard(func() error {
				refusals[i] = p.sign(ctx, &l.Signs[i], i+1)
				return nil
			}))
		}
		if err := group.Wait(); err != nil { // A panic: refusals are no error.
			return err
		}
		return ended(ctx, refusals)
	})
	if err != nil {
		return nil, err
	}
	for i := range l.Signs {
		l.AllAlive = l.AllAlive && l.Signs[i].Alive
		if l.Signs[i].Usage != nil {
			l.Cost += l.Signs[i].Usage.Cost
		}
	}
	return l, nil
}

// sign asks one model.
func (p *Prober) sign(ctx context.Context, s *Sign, number int) error {
	ctx, cancel := context.WithTimeout(ctx, lifeTime)
	defer cancel()
	q := question{provider: s.Provider, model: s.Model, operation: s.Operation, number: number}
	if s.Operation == provider.OperationEmbeddings {
		q.input = lifePrompt
	} else {
		q.chat = provider.Chat{MaxTokens: lifeTokens, Messages: turns("", lifePrompt)}
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

// reasonOf is the class of a failure and its short code: the vendor's own where it
// has one.
func reasonOf(err error) (apierr.Class, string) {
	e := apierr.From(err)
	if of, ok := errors.AsType[*provider.Error](err); ok && trace.IsShortCode(of.Code) {
		return e.ErrorClass(), of.Code
	}
	return e.ErrorClass(), string(e.Reason)
}
