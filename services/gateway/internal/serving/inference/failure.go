package inference

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
)

// Reasons of a request that no provider served.
const (
	ReasonAllProvidersFailed apierr.Reason = "all_providers_failed"
	ReasonProviderFailed     apierr.Reason = "provider_failed"
	ReasonProviderAuth       apierr.Reason = "provider_auth"
	ReasonMissingKeys        apierr.Reason = "missing_keys"
	ReasonContextOverflow    apierr.Reason = "context_overflow"
	ReasonContentPolicy      apierr.Reason = "content_policy"
	ReasonStreamInterrupted  apierr.Reason = "stream_interrupted"
	ReasonLedgerFull         apierr.Reason = "ledger_full"
	ReasonMemoryFull         apierr.Reason = "answer_memory_full"
	ReasonImageInAnswer      apierr.Reason = "image_in_answer"
)

// retryAfter is sent where no provider named a time.
const retryAfter = 2 * time.Second

var (
	// errMissingKeys is 503 with class auth, since nothing about the request is wrong. Of the errors of all providers only
	// all_providers_failed may be retried.
	errMissingKeys = &apierr.Error{
		Kind: apierr.KindUnavailable, Reason: ReasonMissingKeys, Class: apierr.ClassAuth,
		Text: "no provider configured (missing keys)",
	}
	errMemoryFull = &apierr.Error{
		Kind: apierr.KindUnavailable, Reason: ReasonMemoryFull, RetryAfter: retryAfter,
		Text: "the memory for answers is used up at the moment",
	}
	errLedgerAway = &apierr.Error{
		Kind: apierr.KindUnavailable, Reason: ReasonLedgerFull, RetryAfter: retryAfter,
		Text: "completions can't be billed at the moment; nothing was sent to a provider",
	}
	// errBeyondLimit ends an answer that exceeded the limit that was asked for.
	errBeyondLimit = &apierr.Error{
		Kind: apierr.KindUpstream, Reason: ReasonStreamInterrupted, Class: apierr.ClassServerError,
		Text: "the provider exceeded the output that was asked for; the answer is cut off here",
	}
)

// Causes of a context that a clock or the caller ended.
var (
	errAnswer     = errors.New("no answer in time")
	errFirstToken = errors.New("no first token in time")
	errIdle       = errors.New("no further event in time")
	errTotal      = errors.New("the request ran out of time")
	errLeft       = errors.New("the caller closed the connection")
	errHedged     = errors.New("another call of the request answered first")
)

// failure is an attempt that failed. The key of the attempt is removed from every text: vendors echo what they were
// sent.
type failure struct {
	*provider.Error
	provider, model string
	// skipped is why the candidate was not called; empty when it was.
	skipped health.Cause
	// full reports whether there was no memory for the answer, which is not the vendor's fault.
	full bool
	// repeatable reports whether the same call may be made once more.
	repeatable bool
}

// blameless is a failure that does not count against the vendor's health although its attempt failed: the content to
// send or to deliver is at another host.
type blameless struct{ failure *provider.Error }

func (b blameless) Error() string { return b.failure.Error() }
func (b blameless) Unwrap() error { return b.failure }

// guard turns a panic of an adapter into a failure of its vendor, so that an answer that an adapter can't read neither
// keeps a permit nor costs the request its other candidates. It must be deferred.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = &provider.Error{
			Class: apierr.ClassServerError, Text: "the provider's adapter failed",
			Cause: fmt.Errorf("panic: %v\n%s", p, debug.Stack()),
		}
	}
}

func newFailure(c candidate, err error) failure {
	e, ok := errors.AsType[*provider.Error](err)
	if !ok {
		e = &provider.Error{Class: apierr.ClassServerError, Text: "the provider could not be called", Cause: err}
	}
	clean := *e
	clean.Code, clean.Text = scrub(e.Code, c.credential.Key), scrub(e.Text, c.credential.Key)
	if e.Cause != nil {
		clean.Cause = errors.New(scrub(e.Cause.Error(), c.credential.Key))
	}
	return failure{Error: &clean, provider: c.Provider, model: c.Model}
}

func scrub(text string, key secret.Value) string {
	if key.IsZero() {
		return text
	}
	return strings.ReplaceAll(text, key.Reveal(), key.String())
}

// describe returns the text of a failure for the caller.
func (f failure) describe() string {
	text := f.provider + ": "
	if f.Status != 0 {
		text += fmt.Sprintf("status %d: ", f.Status)
	}
	return text + f.Text
}

// answer returns a failure as an error, with the provider's own class and Retry-After.
func (f failure) answer(kind apierr.Kind, reason apierr.Reason) *apierr.Error {
	return &apierr.Error{
		Kind: kind, Reason: reason, Class: f.Class, Text: f.describe(), RetryAfter: f.RetryAfter, Cause: f.Error, At: f.Field,
	}
}

// refusal returns the error of a request that failed at each provider tried. It is the last failure where that is the
// caller's fault or where no other provider was allowed.
func refusal(failures []failure, substitution bool) *apierr.Error {
	last := failures[len(failures)-1]
	if !last.Failover() || unsupported(failures) {
		return last.answer(apierr.KindInvalid, faults[last.Class])
	}
	if !substitution && !last.full {
		return last.answer(apierr.KindUpstream, ReasonProviderFailed)
	}
	switch {
	case last.full:
		return errMemoryFull.Wrap(last.Error)
	case all(failures, apierr.ClassAuth):
		return last.answer(apierr.KindUpstream, ReasonProviderAuth)
	case all(failures, apierr.ClassRateLimit):
		e := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "every provider is rate limited: "+list(failures))
		e.RetryAfter = hint(failures)
		return e.Wrap(last.Error)
	}
	e := apierr.New(apierr.KindUnavailable, ReasonAllProvidersFailed, "every provider failed: "+list(failures))
	e.RetryAfter = hint(failures)
	return e.Wrap(last.Error)
}

// faults are the classes that the caller can correct.
var faults = map[apierr.Class]apierr.Reason{
	apierr.ClassPolicy:          apierr.ReasonInvalidRequest,
	apierr.ClassContextOverflow: ReasonContextOverflow,
	apierr.ClassContentPolicy:   ReasonContentPolicy,
}

func all(failures []failure, class apierr.Class) bool {
	for _, f := range failures {
		if f.Class != class {
			return false
		}
	}
	return true
}

// unsupported reports whether no candidate's dialect could carry the request.
func unsupported(failures []failure) bool {
	return !slices.ContainsFunc(failures, func(f failure) bool { return !f.Unsupported })
}

func list(failures []failure) string {
	texts := make([]string, len(failures))
	for i, f := range failures {
		why := string(f.Class)
		if f.skipped != "" {
			why = f.Text
		}
		texts[i] = f.provider + " (" + why + ")"
	}
	return strings.Join(texts, ", ")
}

// hint returns the shortest wait that a provider named: after it one may serve again.
func hint(failures []failure) time.Duration {
	var shortest time.Duration
	for _, f := range failures {
		if f.RetryAfter > 0 && (shortest == 0 || f.RetryAfter < shortest) {
			shortest = f.RetryAfter
		}
	}
	if shortest == 0 {
		return retryAfter
	}
	return shortest
}

// over returns why a request may not continue; nil while it may.
func (x *execution) over(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case !time.Now().Before(x.deadline(x.engine.Clocks)):
		return late()
	}
	return nil
}

// ended returns the error of a request whose own context ended.
func ended(ctx context.Context) error {
	if e := admission.Termination(ctx); e != nil {
		return e
	}
	if errors.Is(context.Cause(ctx), errTotal) {
		return late()
	}
	return apierr.From(ctx.Err())
}

func late() error {
	return apierr.New(apierr.KindTimeout, apierr.ReasonTimeout, "no provider answered in time").Wrap(errTotal)
}

// interrupted returns the error in a stream that ended early, after its first content.
func interrupted(f failure) *apierr.Error {
	return f.answer(apierr.KindUpstream, ReasonStreamInterrupted)
}
