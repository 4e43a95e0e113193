package health

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	refusedCall = Verdict{Outcome: Bad, Cause: "no answer"}
	servedCall  = Verdict{Outcome: Good}
)

func newSet(peers Peers) *Set { return NewSet(DefaultPolicy(), peers, slog.New(slog.DiscardHandler)) }

// call makes calls of a circuit and reports how many went through.
func (s *Set) calls(ctx context.Context, c Circuit, n int, v Verdict) (went int) {
	for range n {
		if done, refused := s.Acquire(ctx, c); refused == nil {
			went++
			done(ctx, v)
		}
	}
	return went
}

// A circuit opens when enough calls fail, lets one probe through later, and closes once that has passed.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, other := newSet(nil), Circuit{"acme", "files"}, Circuit{"bolt", "files"}
		if went := s.calls(t.Context(), c, 4, Verdict{Outcome: Void}) + s.calls(t.Context(), c, 4, Verdict{Outcome: Answered}); went != 8 || s.State(c).Phase != Closed {
			t.Fatalf("%d went: %+v", went, s.State(c))
		}
		if went := s.calls(t.Context(), c, 10, refusedCall); went != 5 || s.State(c).Phase != Open {
			t.Fatalf("%d went: %+v", went, s.State(c))
		}
		if went := s.calls(t.Context(), other, 10, servedCall); went != 10 {
			t.Errorf("%d calls of another organization went", went)
		}
		_, refused := s.Acquire(t.Context(), c)
		if refused == nil || refused.Cause != CauseOpen || refused.RetryAfter <= 0 || refused.RetryAfter > 6*time.Second {
			t.Fatalf("%+v", refused)
		}
		time.Sleep(refused.RetryAfter)
		probe, refused := s.Acquire(t.Context(), c)
		if refused != nil || s.calls(t.Context(), c, 5, servedCall) != 0 {
			t.Fatalf("%+v: not one probe alone", refused)
		}
		probe(t.Context(), Verdict{Outcome: Void}) // Its caller left: another may probe at once.
		if went := s.calls(t.Context(), c, 5, refusedCall); went != 1 || s.State(c).Phase != Open {
			t.Errorf("%d probes failed: %+v", went, s.State(c))
		}
		time.Sleep(time.Minute)
		if went := s.calls(t.Context(), c, 5, servedCall); went != 5 || s.State(c).Phase != Closed {
			t.Errorf("%d went after a probe that passed: %+v", went, s.State(c))
		}
	})
}

// sharedReports is the reports of several replicas in one process.
type sharedReports struct {
	mu      sync.Mutex
	reports map[string][]Report
}

type sharedPeer struct {
	*sharedReports
	name string
}

func (s sharedPeer) Exchange(_ context.Context, reports []Report, _ bool) (View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports[s.name] = reports
	view := View{Self: s.name, Replicas: len(s.reports)}
	for name, all := range s.reports {
		for _, r := range all {
			r.Replica = name
			view.Reports = append(view.Reports, r)
		}
	}
	return view, nil
}

func (s sharedPeer) Lease(context.Context, Circuit, time.Duration) (bool, error) { return true, nil }

func (s sharedPeer) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

// What most replicas have seen fail is held back by all, also by one that has not called it.
func TestSetFollowsMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &sharedReports{reports: make(map[string][]Report)}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		sets := make([]*Set, 3)
		for i := range sets {
			sets[i] = newSet(sharedPeer{b, fmt.Sprint(i)})
			group.Go(func() { _ = sets[i].Run(ctx) })
		}
		c := Circuit{"acme", "files"}
		time.Sleep(2 * time.Second)
		sets[0].calls(ctx, c, 5, refusedCall)
		time.Sleep(2 * time.Second)
		if went := sets[2].calls(ctx, c, 1, Verdict{}); went != 1 {
			t.Error("one replica of three holds calls back everywhere")
		}
		sets[1].calls(ctx, c, 5, refusedCall)
		time.Sleep(2 * time.Second)
		if went := sets[2].calls(ctx, c, 1, Verdict{}); went != 0 || sets[2].State(c).Phase != Open {
			t.Errorf("a replica does not follow two of three: %+v", sets[2].State(c))
		}
		cancel()
		group.Wait()
	})
}

func TestSetIsBounded(t *testing.T) {
	s := newSet(nil)
	for i := range maxBreakers + 100 {
		s.calls(t.Context(), Circuit{"acme", fmt.Sprint(i)}, 5, refusedCall)
	}
	if n := s.breakers.Len(); n != maxBreakers {
		t.Errorf("%d breakers", n)
	}
	if n := len(s.reports(time.Now())); n != maxReports {
		t.Errorf("%d reports", n)
	}
}
