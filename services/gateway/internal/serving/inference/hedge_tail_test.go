package inference

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// tailed is a provider of which few calls are slow.
type tailed struct {
	*script
	mu   sync.Mutex
	n    int
	each int // one call of so many is slow
}

func (p *tailed) StreamChat(ctx context.Context, _ provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	p.called(chat)
	provider.ReceiptOf(ctx).SetSent()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	wait := 45*time.Millisecond + time.Duration(p.n%11)*time.Millisecond
	if p.n%p.each == 0 {
		wait = 5 * time.Second
	}
	usage := end(&provider.Usage{Input: 1000, Output: 50})
	return &scriptStream{ctx: ctx, of: p.script, steps: []step{{wait: wait, event: provider.Event{Text: "yes"}}, usage}}, nil
}

// With one call in a hundred a hundred times slower, a budget of 2 % at least halves the 99th percentile of the wait for
// the first content, and costs no more than 2 %. Every call that was made has a row.
func TestHedgeCutsTheTail(t *testing.T) {
	const requests, percent = 4000, 2.0
	simulate := func(t *testing.T, hedge policy.Hedge) (p99 time.Duration, extra float64) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			b := setupHedged(t, vendorOf("a", nil), vendorOf("b", nil))
			b.Fleet().Hedge = func(policy.Goal) policy.Hedge { return hedge }
			b.hedges = hedgeBudgets{}
			b.Clocks.FirstToken = time.Minute
			for name, s := range b.scripts {
				b.Fleet().Providers[name] = &tailed{script: s, each: 97}
			}
			r := request() // About a thousand tokens, as many as the vendor reports.
			r.Chat.Messages[0].Content[0].Text = strings.Repeat("1234", 1000)
			var waits []time.Duration
			for range requests {
				began := time.Now()
				s, err := b.StreamChat(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				waits = append(waits, time.Since(began))
				if _, err := read(s); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(waits)
			p99 = waits[len(waits)*99/100]
			var served, lost int64
			for _, e := range b.ledger.entries {
				if e.Outcome == ledger.OutcomeCompleted {
					served += int64(e.Cost)
				} else {
					lost += int64(e.Cost)
				}
			}
			extra = 100 * float64(lost) / float64(served)
			calls := 0
			for _, s := range b.scripts {
				n, closed := s.count()
				if calls += n; n != closed {
					t.Errorf("%s: %d calls, %d closed", s.name, n, closed)
				}
			}
			if len(b.ledger.entries) != calls {
				t.Errorf("%d rows of %d calls", len(b.ledger.entries), calls)
			}
		})
		return p99, extra
	}
	without, _ := simulate(t, policy.Hedge{})
	with, extra := simulate(t, policy.Hedge{BudgetPercent: percent, Goal: policy.GoalLatency})
	t.Logf("p99 %s without hedges, %s with, for %.2f%% more", without, with, extra)
	if with > without/2 {
		t.Errorf("p99 is %s with hedges, %s without", with, without)
	}
	if extra <= 0 || extra > percent {
		t.Errorf("hedges cost %.2f%%, want more than 0 and at most %.0f%%", extra, percent)
	}
}

// Where every call is slow, hedges cost no more than their budget either.
func TestHedgeKeepsToItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setupHedged(t, vendorOf("a", after(time.Second, "a")), vendorOf("b", after(time.Second, "b")))
		b.hedges = hedgeBudgets{}
		for range 1000 {
			s, err := b.StreamChat(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = s.Next()
			}
			if s.Close(); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		var served, lost int64
		for _, e := range b.ledger.entries {
			if e.Outcome == ledger.OutcomeCompleted {
				served += int64(e.Cost)
			} else {
				lost += int64(e.Cost)
			}
		}
		if lost == 0 || 100*lost > 2*served {
			t.Errorf("hedges cost %d of %d", lost, served)
		}
	})
}
