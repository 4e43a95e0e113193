package inference

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

var good = provider.Answer{Text: "yes", FinishReason: provider.FinishStop, Usage: &provider.Usage{Input: 10, Output: 20}}

// The result of the first candidate decides whether the second is called, for whole answers and streams, with and
// without substitution.
func TestFailoverMatrix(t *testing.T) {
	cases := []struct {
		class          apierr.Class
		status         int
		failover       bool
		alone          int // the status of the answer with no other candidate
		aloneReason    apierr.Reason
		forbidden      int // … with another candidate that may not be used
		forbiddenError apierr.Reason
	}{
		{apierr.ClassTransient, 0, true, 503, ReasonAllProvidersFailed, 502, ReasonProviderFailed},
		{apierr.ClassServerError, 500, true, 503, ReasonAllProvidersFailed, 502, ReasonProviderFailed},
		{apierr.ClassRateLimit, 429, true, 429, apierr.ReasonRateLimited, 502, ReasonProviderFailed},
		{apierr.ClassAuth, 401, true, 502, ReasonProviderAuth, 502, ReasonProviderFailed},
		{apierr.ClassPolicy, 400, false, 400, apierr.ReasonInvalidRequest, 400, apierr.ReasonInvalidRequest},
		{apierr.ClassContextOverflow, 400, false, 400, ReasonContextOverflow, 400, ReasonContextOverflow},
		{apierr.ClassContentPolicy, 400, false, 400, ReasonContentPolicy, 400, ReasonContentPolicy},
	}
	for _, c := range cases {
		for _, stream := range []bool{false, true} {
			name := string(c.class) + map[bool]string{false: "/whole", true: "/stream"}[stream]
			t.Run(name, func(t *testing.T) {
				bad := func() *script { return &script{name: "a", steps: failing(c.class, c.status)} }
				fine := func() *script {
					return &script{name: "b", answer: good, steps: []step{text("yes"), end(good.Usage)}}
				}
				two := setup(t, nil, bad(), fine())
				report, err := serve(t, two, request(), stream)
				calls, _ := two.scripts["b"].count()
				if c.failover {
					if err != nil {
						t.Fatalf("failover: %v", err)
					}
					checkServed(t, ledger.Report{Provider: "b", RequestedProvider: "a", Substituted: true}, report)
					if n := len(two.ledger.entries); n != 1 {
						t.Errorf("failover: %d entries, want one", n)
					}
				}
				if !c.failover && (calls != 0 || len(two.ledger.entries) != 0) {
					t.Errorf("%d calls of b and %d entries, want none", calls, len(two.ledger.entries))
				}
				if !c.failover {
					refused(t, err, c.alone, c.aloneReason, c.class)
				}

				_, err = serve(t, setup(t, nil, bad()), request(), stream)
				refused(t, err, c.alone, c.aloneReason, "")

				strict := request()
				strict.Route.Substitution = false
				forbidden := setup(t, nil, bad(), fine())
				_, err = serve(t, forbidden, strict, stream)
				e := refused(t, err, c.forbidden, c.forbiddenError, c.class)
				if calls, _ := forbidden.scripts["b"].count(); calls != 0 || !strings.Contains(e.Text, "it says "+string(c.class)) || e.RetryAfter != 7*time.Second {
					t.Errorf("%d calls of b, error %+v, want none and the provider's own error", calls, e)
				}
			})
		}
	}
}

func serve(t *testing.T, b *bench, r *Request, stream bool) (ledger.Report, error) {
	t.Helper()
	if !stream {
		completion, err := b.Chat(t.Context(), r)
		if err != nil {
			return ledger.Report{}, err
		}
		return completion.Report, nil
	}
	s, err := b.StreamChat(t.Context(), r)
	if err != nil {
		return ledger.Report{}, err
	}
	if _, err := read(s); err != nil {
		return ledger.Report{}, err
	}
	return s.Report(), nil
}

func TestChat(t *testing.T) {
	b := setup(t, nil, &script{name: "a", answer: good})
	r := request()
	r.Key, r.Run, r.Route.Goal = "key", "run", "cost"
	completion, err := b.Chat(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	want := ledger.Report{Provider: "a", Model: "a-1", Prompt: 10, Completion: 20, Usage: *good.Usage, Cost: 50e6 / 1, RequestedGoal: "cost"}
	if diff := cmp.Diff(want, completion.Report); diff != "" || completion.Text != "yes" || completion.Route.Attempts != 1 {
		t.Errorf("completion %+v (-want +got):\n%s", completion, diff)
	}
	if got := b.scripts["a"].chat.Model; got != "a-up" {
		t.Errorf("model sent %q, want the vendor's own name", got)
	}
	entry := b.ledger.entries[0]
	wantEntry := ledger.Entry{
		Key: "key", Run: "run", Provider: "a", Model: "a-1", RequestedGoal: "cost",
		Cost: 50e6, PriceVersion: "a/a-1@1999-01-01", Usage: *good.Usage,
		State: ledger.StateReported, Outcome: ledger.OutcomeCompleted, Attempts: 1,
	}
	ignored := cmpopts.IgnoreFields(ledger.Entry{},
		"ID", "RequestID", "Organization", "Service", "Operation", "RequestedProvider", "RequestedModel", "Credential", "Fingerprint", "StartedAt", "EndedAt")
	if diff := cmp.Diff(wantEntry, entry, ignored); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if entry.Fingerprint == "" {
		t.Error("the entry has no fingerprint of the credential")
	}
}

func TestUsageStates(t *testing.T) {
	cases := []struct {
		name      string
		provider  string
		usage     *provider.Usage
		state     ledger.State
		prompt    int64
		estimated bool
	}{
		{"reported", "a", &provider.Usage{Input: 3, Output: 4}, ledger.StateReported, 3, false},
		{"zero is not reported", "a", &provider.Usage{}, ledger.StateEstimated, 2, true},
		{"absent is not zero", "a", nil, ledger.StateEstimated, 2, true},
		{"a negative report counts nothing", "a", &provider.Usage{Input: -3, Output: 4}, ledger.StateEstimated, 2, true},
		{"no price", "c", &provider.Usage{Input: 3, Output: 4}, ledger.StateReported, 3, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			answer := good
			answer.Usage = c.usage
			b := setup(t, nil, &script{name: c.provider, answer: answer})
			completion, err := b.Chat(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			if got := completion.Report; got.Estimated != c.estimated || got.Prompt != c.prompt || b.ledger.entries[0].State != c.state {
				t.Errorf("report %+v, state %s", got, b.ledger.entries[0].State)
			}
		})
	}
}

func TestMissingKeys(t *testing.T) {
	b := setup(t, []string{"a"}, &script{name: "a", answer: good}, &script{name: "b", answer: good})
	completion, err := b.Chat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	checkServed(t, ledger.Report{Provider: "b", RequestedProvider: "a", Substituted: true}, completion.Report)
	strict := request()
	strict.Route.Substitution = false
	_, err = b.Chat(t.Context(), strict)
	e := refused(t, err, 503, ReasonMissingKeys, apierr.ClassAuth)
	if e.Text != "no provider configured (missing keys)" || e.ErrorClass().Retryable() {
		t.Errorf("error %+v", e)
	}
	byok := request()
	byok.Byok = keyring.ModeRequire
	_, err = b.Chat(t.Context(), byok)
	refused(t, err, 503, ReasonMissingKeys, apierr.ClassAuth)
}

func TestLedgerAwayRefusesBeforeTheCall(t *testing.T) {
	b := setup(t, nil, &script{name: "a", answer: good})
	b.ledger.away = ledger.ErrUnavailable
	_, err := b.Chat(t.Context(), request())
	refused(t, err, 503, ReasonLedgerFull, apierr.ClassTransient)
	_, err = b.StreamChat(t.Context(), request())
	refused(t, err, 503, ReasonLedgerFull, apierr.ClassTransient)
	if calls, _ := b.scripts["a"].count(); calls != 0 {
		t.Errorf("%d calls, want none", calls)
	}
}

func TestAttemptsAreCapped(t *testing.T) {
	var scripts []*script
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		scripts = append(scripts, &script{name: name, steps: failing(apierr.ClassServerError, 500)})
	}
	b := setup(t, nil, scripts...)
	_, err := b.Chat(t.Context(), request())
	refused(t, err, 503, ReasonAllProvidersFailed, "")
	const promised = 4 // in the README
	for i, s := range scripts {
		if calls, _ := s.count(); calls > 1 || (calls == 1) != (i < promised) {
			t.Errorf("%s: %d calls", s.name, calls)
		}
	}
}

func TestRateLimitedEverywhereNamesTheShortestWait(t *testing.T) {
	slow := &script{name: "a", steps: []step{{err: &provider.Error{Class: apierr.ClassRateLimit, RetryAfter: time.Minute}}}}
	fast := &script{name: "b", steps: []step{{err: &provider.Error{Class: apierr.ClassRateLimit, RetryAfter: 3 * time.Second}}}}
	_, err := setup(t, nil, slow, fast).Chat(t.Context(), request())
	if e := refused(t, err, 429, apierr.ReasonRateLimited, apierr.ClassRateLimit); e.RetryAfter != 3*time.Second {
		t.Errorf("retry after %v, want 3s", e.RetryAfter)
	}
}

func TestAnswerClocks(t *testing.T) {
	cases := []struct {
		name   string
		a, b   time.Duration
		served string
		status int
	}{
		{"in time", 9 * time.Second, 0, "a", 0},
		{"too slow, another serves", 11 * time.Second, 0, "b", 0},
		{"the last has grace", 11 * time.Second, 19 * time.Second, "b", 0},
		{"both too slow", 11 * time.Second, 21 * time.Second, "", 503},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, nil, &script{name: "a", answer: good, steps: []step{{wait: c.a}}}, &script{name: "b", answer: good, steps: []step{{wait: c.b}}})
				completion, err := b.Chat(t.Context(), request())
				if c.status != 0 {
					refused(t, err, c.status, ReasonAllProvidersFailed, "")
				} else if err != nil || completion.Report.Provider != c.served {
					t.Errorf("%+v, %v, want %s", completion, err, c.served)
				}
			})
		})
	}
}

func TestTotalClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil, &script{name: "a", steps: []step{{wait: time.Hour}}}, &script{name: "b", answer: good})
		b.Clocks.Total = 5 * time.Second
		start := time.Now()
		_, err := b.Chat(t.Context(), request())
		refused(t, err, 504, apierr.ReasonTimeout, apierr.ClassTransient)
		if calls, _ := b.scripts["b"].count(); calls != 0 || time.Since(start) != b.Clocks.Total {
			t.Errorf("%d other candidates were tried, it ended after %v", calls, time.Since(start))
		}
	})
}

// A pause that is longer than the rest of the total clock is not waited for.
func TestTotalClockSparesThePause(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := &provider.Error{Class: apierr.ClassServerError, Status: 503, RetryAfter: 4 * time.Second}
			a := &script{name: "a", steps: []step{{err: e}}, openBy: e}
			b := setup(t, nil, a)
			b.Clocks.Total = 3 * time.Second
			start := time.Now()
			_, err := serve(t, b, request(), stream)
			if calls, _ := a.count(); err == nil || calls != 1 || time.Since(start) != 0 {
				t.Errorf("stream %t: %d calls after %v, %v; want one, and the vendor's failure at once", stream, calls, time.Since(start), err)
			}
		})
	}
}

func TestCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil, &script{name: "a", steps: []step{{wait: 5 * time.Second}}}, &script{name: "b", answer: good})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := b.Chat(ctx, request())
		if calls, _ := b.scripts["b"].count(); err == nil || calls != 0 || time.Since(start) != time.Second {
			t.Errorf("%v, %d further calls after %v, want an end at once", err, calls, time.Since(start))
		}
	})
}

func TestLocale(t *testing.T) {
	cases := []struct {
		name   string
		locale string
		force  bool
		want   string
	}{
		{"none", "", false, ""},
		{"auto", "fr", false, "Respond in fr."},
		{"force", "pt-BR", true, "Respond in pt-BR. Use no other language, even when the input is in one."},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := setup(t, nil, &script{name: "a", steps: failing(apierr.ClassServerError, 500)}, &script{name: "b", answer: good})
			r := request()
			r.Locale, r.ForceLocale = c.locale, c.force
			if _, err := b.Chat(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			for _, s := range b.scripts {
				got := s.chat.Messages
				want := request().Chat.Messages
				if c.want != "" {
					want = append([]provider.Message{{Role: provider.RoleSystem, Content: []provider.Part{{Text: c.want}}}}, want...)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("messages sent to %s (-want +got):\n%s", s.name, diff)
				}
			}
		})
	}
}

// A vendor that echoes the key it was sent can't pass it on: not to the caller, the log or the ledger.
func TestKeyNeverLeaves(t *testing.T) {
	echo := &provider.Error{
		Class: apierr.ClassServerError, Status: 500, Code: "bad " + canary, Text: "got " + canary,
		Cause: errors.New("dial with " + canary),
	}
	for _, stream := range []bool{false, true} {
		b := setup(t, nil, &script{name: "a", steps: []step{{err: echo}}})
		r := request()
		r.Route.Substitution = false
		_, err := serve(t, b, r, stream)
		e := refused(t, err, 502, ReasonProviderFailed, "")
		testkit.NoLeak(t, canary, e.Text, e.Error(), b.log.String())
		if !strings.Contains(e.Text, "got [redacted]") {
			t.Errorf("text %q", e.Text)
		}
	}
	b := setup(t, nil, &script{name: "a", steps: []step{text("hi"), {err: echo}}})
	s, err := b.StreamChat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	_, err = read(s)
	testkit.NoLeak(t, canary, err.Error(), b.log.String(), b.ledger.entries[0].LogValue().String())
}
