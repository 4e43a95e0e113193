package inference

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

func refusedBy(status int, class apierr.Class, after time.Duration) []step {
	return []step{{err: &provider.Error{Class: class, Status: status, Text: "it says no", RetryAfter: after}}}
}

// exhaust makes requests until a provider's circuit is open.
func exhaust(t *testing.T, b *bench) {
	t.Helper()
	for range 6 {
		_, _ = b.Chat(t.Context(), request())
	}
}

// A provider whose circuit is open is not called, costs no attempt, and is named
// in the error of a request that no provider could serve.
func TestOpenCircuitIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil, &script{name: "a", steps: failing(apierr.ClassServerError, 500)}, &script{name: "b", answer: good})
		exhaust(t, b)
		before, _ := b.scripts["a"].count()
		completion, err := b.Chat(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		checkServed(t, ledger.Report{Provider: "b", RequestedProvider: "a", Substituted: true}, completion.Report)
		if completion.Route.Attempts != 1 {
			t.Errorf("%d attempts, want one", completion.Route.Attempts)
		}
		if after, _ := b.scripts["a"].count(); after != before {
			t.Errorf("a was called %d times", after-before)
		}
		b.scripts["b"].steps = failing(apierr.ClassServerError, 500)
		_, err = b.Chat(t.Context(), request())
		e := refused(t, err, 503, ReasonAllProvidersFailed, apierr.ClassTransient)
		if !strings.Contains(e.Text, "a (not called: its circuit is open") || !strings.Contains(e.Text, "b (server_error)") || e.RetryAfter <= 0 {
			t.Errorf("error %+v, want both named", e)
		}
		strict := request()
		strict.Route.Substitution = false
		_, err = b.Chat(t.Context(), strict)
		if e := refused(t, err, 502, ReasonProviderFailed, ""); !strings.Contains(e.Text, "a: not called") || e.RetryAfter <= 0 {
			t.Errorf("error %+v", e)
		}
		// When its time has come, one request probes, and then it serves again.
		time.Sleep(10 * time.Second)
		b.scripts["a"].steps, b.scripts["a"].answer = nil, good
		if completion, err := b.Chat(t.Context(), request()); err != nil || completion.Report.Provider != "a" {
			t.Errorf("%+v, %v; want a again", completion, err)
		}
	})
}

// A Retry-After holds for those who come after: they don't ask before it is over.
func TestRetryAfterIsAFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &script{name: "a", steps: refusedBy(429, apierr.ClassRateLimit, 7*time.Second)}
		b := setup(t, nil, a)
		_, err := b.Chat(t.Context(), request())
		refused(t, err, 429, apierr.ReasonRateLimited, apierr.ClassRateLimit)
		time.Sleep(2 * time.Second)
		_, err = b.Chat(t.Context(), request())
		e := refused(t, err, 429, apierr.ReasonRateLimited, apierr.ClassRateLimit)
		if calls, _ := a.count(); calls != 1 || e.RetryAfter != 5*time.Second {
			t.Errorf("%d calls, retry after %v, want one call and the five seconds that are left", calls, e.RetryAfter)
		}
		time.Sleep(5 * time.Second)
		a.steps, a.answer = nil, good
		if _, err := b.Chat(t.Context(), request()); err != nil {
			t.Error(err)
		}
	})
}

// A vendor that says to come back later than the request can wait is left at once.
func TestLongRetryAfterFailsOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil, &script{name: "a", steps: refusedBy(503, apierr.ClassServerError, 10*time.Minute)}, &script{name: "b", answer: good})
		start := time.Now()
		if completion, err := b.Chat(t.Context(), request()); err != nil || completion.Report.Provider != "b" || time.Since(start) != 0 {
			t.Errorf("%+v, %v after %v", completion, err, time.Since(start))
		}
	})
}

// The only candidate is called once more where that can't cost twice: when it
// had no answer to give. It is never called a third time.
func TestOnlyCandidateIsRepeated(t *testing.T) {
	no := false
	cases := []struct {
		name  string
		e     *provider.Error
		calls int
	}{
		{"no connection", &provider.Error{Class: apierr.ClassTransient}, 2},
		{"408", &provider.Error{Class: apierr.ClassTransient, Status: 408}, 2},
		{"500", &provider.Error{Class: apierr.ClassServerError, Status: 500}, 2},
		{"503 with a short hint", &provider.Error{Class: apierr.ClassServerError, Status: 503, RetryAfter: 2 * time.Second}, 2},
		{"503 with a long hint", &provider.Error{Class: apierr.ClassServerError, Status: 503, RetryAfter: time.Minute}, 1},
		{"x-should-retry: false", &provider.Error{Class: apierr.ClassServerError, Status: 500, ShouldRetry: &no}, 1},
		{"an answer that broke off", &provider.Error{Class: apierr.ClassTransient, Status: 200}, 1},
		{"an answer that can't be read", &provider.Error{Class: apierr.ClassServerError}, 1},
		{"a rate limit", &provider.Error{Class: apierr.ClassRateLimit, Status: 429}, 1},
		{"a refused key", &provider.Error{Class: apierr.ClassAuth, Status: 401}, 1},
		{"the caller's fault", &provider.Error{Class: apierr.ClassPolicy, Status: 400}, 1},
		{"a clock", &provider.Error{Class: apierr.ClassTransient, Cause: errors.Join(errAnswer, context.Canceled)}, 1},
	}
	for _, c := range cases {
		for _, stream := range []bool{false, true} {
			name := c.name + map[bool]string{false: "", true: ", streamed"}[stream]
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := &script{name: "a", steps: []step{{err: c.e}}, openBy: c.e}
					b := setup(t, nil, a)
					start := time.Now()
					_, err := serve(t, b, request(), stream)
					if calls, _ := a.count(); err == nil || calls != c.calls {
						t.Errorf("%d calls, %v; want %d", calls, err, c.calls)
					}
					if waited := time.Since(start); c.calls == 2 && (waited < max(repeatPause, c.e.RetryAfter) || waited > max(2*repeatPause, c.e.RetryAfter)) {
						t.Errorf("waited %v", waited)
					}
				})
			})
		}
	}
}

// Where there is another candidate, it is called instead.
func TestCandidatesAreNotRepeatedBesideOthers(t *testing.T) {
	down := func(name string) *script {
		return &script{name: name, steps: []step{{err: &provider.Error{Class: apierr.ClassTransient}}}}
	}
	b := setup(t, nil, down("a"), down("b"))
	_, err := b.Chat(t.Context(), request())
	refused(t, err, 503, ReasonAllProvidersFailed, "")
	for name, s := range b.scripts {
		if calls, _ := s.count(); calls != 1 {
			t.Errorf("%s: %d calls", name, calls)
		}
	}
}

// A stream whose head has come is never begun again: it may have been paid for.
func TestBegunStreamIsNotRepeated(t *testing.T) {
	a := &script{name: "a", steps: []step{{err: &provider.Error{Class: apierr.ClassTransient}}}}
	b := setup(t, nil, a)
	_, err := b.StreamChat(t.Context(), request())
	refused(t, err, 503, ReasonAllProvidersFailed, "")
	if calls, _ := a.count(); calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

// A request with little time left fails rather than waits for nothing; one whose
// caller leaves in the pause ends there.
func TestRepeatMindsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &script{name: "a", steps: []step{{err: &provider.Error{Class: apierr.ClassTransient}}}}
		ctx, cancel := context.WithTimeout(t.Context(), repeatPause/2)
		defer cancel()
		_, err := setup(t, nil, a).Chat(ctx, request())
		if calls, _ := a.count(); err == nil || calls != 1 {
			t.Errorf("%d calls, %v", calls, err)
		}
		a.calls = 0
		left, leave := context.WithCancel(t.Context())
		time.AfterFunc(repeatPause/2, leave)
		start := time.Now()
		_, err = setup(t, nil, a).Chat(left, request())
		refused(t, err, 499, apierr.ReasonCancelled, "")
		if calls, _ := a.count(); calls != 1 || time.Since(start) != repeatPause/2 {
			t.Errorf("%d calls, ended after %v", calls, time.Since(start))
		}
	})
}

// Repeats are a small part of the load, whatever happens (research: retry storms).
func TestRepeatsHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &script{name: "a", steps: []step{{err: &provider.Error{Class: apierr.ClassTransient}}}}
		b := setup(t, nil, a)
		b.Health = health.New(health.Options{Policy: health.Policy{FailureShare: 1, Sample: 1e6, Window: time.Second, Delay: time.Second, MaxDelay: time.Second}})
		for range 200 {
			_, _ = b.Chat(t.Context(), request())
		}
		if calls, _ := a.count(); calls < 215 || calls > 235 {
			t.Errorf("%d calls for 200 requests", calls)
		}
	})
}

// One request that makes a provider fail twice the same way is one failure of it.
func TestRepeatedFailureCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &script{name: "a", steps: refusedBy(500, apierr.ClassServerError, 0)}
		b := setup(t, nil, a)
		for range 4 {
			_, _ = b.Chat(t.Context(), request())
		}
		if calls, _ := a.count(); calls != 8 {
			t.Fatalf("%d calls, want each repeated", calls)
		}
		if s := b.Health.Snapshot()[0]; s.Phase != health.Closed {
			t.Error("four requests counted as eight failures")
		}
	})
}

// A vendor whose reported limit is used up yields to another one, but is still called
// where there is no other.
func TestUsedUpLimitYields(t *testing.T) {
	spent := good
	spent.Limits.Requests = provider.Allowance{Known: true, Reset: time.Minute}
	alone := setup(t, nil, &script{name: "a", answer: spent})
	two := setup(t, nil, &script{name: "a", answer: spent}, &script{name: "b", answer: good})
	for i, want := range []string{"a", "b", "b"} {
		completion, err := two.Chat(t.Context(), request())
		if err != nil || completion.Report.Provider != want || completion.Route.Attempts != 1 {
			t.Errorf("call %d: %+v, %v; want %s", i, completion, err, want)
		}
		if _, err := alone.Chat(t.Context(), request()); err != nil {
			t.Errorf("alone, call %d: %v", i, err)
		}
	}
}

// A provider that hangs holds so many requests and no more; what it may not get
// goes to another.
func TestFullBulkheadFailsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil, &script{name: "a", answer: good, steps: []step{{wait: 5 * time.Second}}}, &script{name: "b", answer: good})
		b.Health = health.New(health.Options{Concurrency: 1})
		done := make(chan string, 1)
		go func() {
			completion, err := b.Chat(t.Context(), request())
			if err != nil {
				t.Error(err)
				done <- ""
				return
			}
			done <- completion.Report.Provider
		}()
		synctest.Wait()
		if completion, err := b.Chat(t.Context(), request()); err != nil || completion.Report.Provider != "b" || completion.Route.Attempts != 1 {
			t.Errorf("%+v, %v; want b", completion, err)
		}
		if got := <-done; got != "a" {
			t.Errorf("the one that came first was served by %q", got)
		}
	})
}
