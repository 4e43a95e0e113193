package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

// maxShown is how many bytes of an answer a report includes.
const maxShown = 1024

// ReasonGoldenInvalid means that the golden set can't be read.
const ReasonGoldenInvalid = apierr.ReasonUnprocessable

// Verdict is the result of one case.
type Verdict struct {
	Name, Check string
	Passed      bool
	// Reason why it did not pass; Answer is the beginning of the answer.
	Reason, Answer, RequestID string
	Latency                   time.Duration
	Cost                      price.Pico
	// Class of the error if the call failed.
	Class apierr.Class
}

// Report is the result of a golden set.
type Report struct {
	Provider, Model string
	Verdicts        []Verdict
	Passed, Failed  int
	Usage           ledger.Report
	Version         string
	Started         time.Time
	Took            time.Duration
}

// Canary runs the golden set against a model; if both names are empty, against the set's own.
func (p *Prober) Canary(ctx context.Context, vendor, model string) (*Report, error) {
	golden, err := p.Golden()
	if err != nil {
		return nil, apierr.New(apierr.KindUnprocessable, ReasonGoldenInvalid, err.Error())
	}
	if vendor == "" && model == "" {
		vendor, model = golden.Provider, golden.Model
	}
	report := &Report{Version: golden.Version, Started: time.Now(), Verdicts: make([]Verdict, len(golden.Cases))}
	reports := make([]ledger.Report, len(golden.Cases))
	refusals := make([]error, len(golden.Cases))
	err = p.alone(ctx, KindCanary, func(ctx context.Context) error {
		var group errgroup.Group
		group.SetLimit(parallelCalls)
		for i := range golden.Cases {
			group.Go(panics.Guard(func() error {
				report.Verdicts[i], reports[i], refusals[i] = p.judge(ctx, &golden.Cases[i], question{
					provider: vendor, model: model, operation: provider.OperationChat, number: i + 1,
					chat: provider.Chat{
						MaxTokens: golden.MaxTokens, ResponseFormat: golden.Cases[i].format,
						Messages: turns(golden.Cases[i].System, golden.Cases[i].Prompt),
					},
				})
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
	for i := range reports {
		add(&report.Usage, reports[i])
		if report.Verdicts[i].Passed {
			report.Passed++
		} else {
			report.Failed++
		}
	}
	report.Provider, report.Model = cmp.Or(report.Usage.Provider, vendor), cmp.Or(report.Usage.Model, model)
	report.Took = time.Since(report.Started)
	return report, nil
}

// judge asks one case and checks the answer.
func (p *Prober) judge(ctx context.Context, c *Case, q question) (Verdict, ledger.Report, error) {
	v := Verdict{Name: c.Name, Check: c.kind}
	completion, id, took, err := p.ask(ctx, q)
	v.RequestID, v.Latency = id, took
	if err != nil {
		e := apierr.From(err)
		v.Reason, v.Class = e.Text, e.ErrorClass()
		return v, ledger.Report{}, err
	}
	v.Answer, v.Cost = shown(completion.Text), completion.Report.Cost
	wrong := c.Check(completion.Text)
	if v.Passed = wrong == nil; !v.Passed {
		v.Reason = wrong.Error()
	}
	return v, completion.Report, nil
}

// ended returns the error of a probe as a whole: of a probe that lost its lease, whose caller left, or that was refused
// before any call.
func ended(ctx context.Context, refusals []error) error {
	if ctx.Err() != nil {
		if cause, ok := errors.AsType[*apierr.Error](context.Cause(ctx)); ok {
			return cause
		}
		return ctx.Err()
	}
	for _, err := range refusals {
		if err == nil || apierr.From(err).Reason != ReasonBudgetExceeded {
			return nil
		}
	}
	return fmt.Errorf("probe: %w", refusals[0])
}

func shown(text string) string {
	if len(text) <= maxShown {
		return text
	}
	end := maxShown
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
