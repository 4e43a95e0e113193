package inference

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// chance is a provider that answers, fails or hangs after a while. It counts the calls that it got, and those that it
// failed itself.
type chance struct {
	*script
	fails       bool
	wait        time.Duration
	got, failed atomic.Int64
}

func (p *chance) outcome() []step {
	p.got.Add(1)
	if p.fails {
		return failingAfter(p.wait, apierr.ClassServerError, 503)
	}
	return after(p.wait, p.name)
}

func (p *chance) Chat(ctx context.Context, _ provider.Credential, _ *provider.Chat) (*provider.Answer, error) {
	provider.ReceiptOf(ctx).SetSent()
	for _, step := range p.outcome() {
		if err := step.take(ctx); err != nil {
			p.count(err)
			return nil, err
		}
	}
	return &p.answer, nil
}

func (p *chance) StreamChat(ctx context.Context, _ provider.Credential, _ *provider.Chat) (provider.Stream, error) {
	provider.ReceiptOf(ctx).SetSent()
	return &chanceStream{scriptStream{ctx: ctx, of: p.script, steps: p.outcome()}, p}, nil
}

func (p *chance) count(err error) {
	if strings.Contains(err.Error(), string(apierr.ClassServerError)) {
		p.failed.Add(1)
	}
}

type chanceStream struct {
	scriptStream
	of *chance
}

func (s *chanceStream) Next() (provider.Event, error) {
	event, err := s.scriptStream.Next()
	if err != nil {
		s.of.count(err)
	}
	return event, err
}

// Whatever vendors and callers do at whatever moment: every call that its vendor did not fail has one row, nothing stays
// reserved, and every permit comes back.
func TestRaceByChance(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		// Times differ, so that nothing happens at the same moment as something else.
		wait := func(n int64) time.Duration {
			return time.Duration(r.Int64N(40))*10*time.Millisecond + time.Duration(n)*time.Millisecond
		}
		vendors := make(map[string]*chance)
		for n, name := range []string{"a", "b", "c"} {
			vendors[name] = &chance{fails: r.IntN(3) == 0, wait: wait(int64(n) + 1)}
			if r.IntN(4) == 0 {
				vendors[name].wait = hanging
			}
		}
		stream, leaves := r.IntN(2) == 0, r.IntN(3) == 0
		leaving := wait(4)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setupHedged(t, vendorOf("a", nil), vendorOf("b", nil), vendorOf("c", nil))
				for name, v := range vendors {
					v.script = b.scripts[name]
					b.Fleet().Providers[name] = v
				}
				d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
				b.Admission = d
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if leaves {
					time.AfterFunc(leaving, cancel)
				}
				got, _, err := serveHedged(ctx, b, request(), stream)
				calls, failed := int64(0), int64(0)
				for _, v := range vendors {
					calls, failed = calls+v.got.Load(), failed+v.failed.Load()
				}
				if rows := int64(len(b.ledger.entries)); rows != calls-failed {
					t.Errorf("%d rows of %d calls, of which %d failed; %q, %v", rows, calls, failed, got, err)
				}
				checkSettled(t, b, d)
			})
		})
	}
}
