package replica_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/replica"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// list is a store whose answers a test sets.
type list struct {
	mu     sync.Mutex
	joined int64
	struck bool  // the next beat finds the replica struck off
	err    error // of beats
	stuck  bool  // burials take as long as they may
	beats  []time.Time
	buried []int64
	frees  int
	left   []int64
}

func (l *list) Join(context.Context, string) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.joined++
	return l.joined, nil
}

func (l *list) Heartbeat(context.Context, int64) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beats = append(l.beats, time.Now())
	listed := !l.struck
	l.struck = false
	return listed, l.err
}

func (l *list) RemoveSilent(ctx context.Context, self int64, _ time.Duration) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stuck {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	l.buried = append(l.buried, self)
	return l.frees, nil
}

func (l *list) Leave(_ context.Context, id int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = append(l.left, id)
	return nil
}

func (l *list) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *list) burials() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.buried)
}

// run starts a member and gives a clock that lets n beats pass.
func run(t *testing.T, l *list, freed func()) (*replica.Member, func(beats int)) {
	t.Helper()
	m, err := replica.Join(t.Context(), l, "r", testkit.Logger(t), freed)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = m.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return m, func(beats int) {
		time.Sleep(time.Duration(beats) * replica.Period)
		synctest.Wait()
	}
}

func TestJudgesOnlyWhenSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &list{}
		_, pass := run(t, l, func() {})
		pass(1)
		if l.burials() != 0 {
			t.Error("judged others after two beats")
		}
		pass(1)
		if l.burials() != 1 {
			t.Error("did not judge after three beats")
		}
		l.set(func() { l.err = errors.New("away") })
		pass(5)
		l.set(func() { l.err = nil })
		pass(2)
		if got := l.burials(); got != 1 {
			t.Errorf("judged others right after an outage, %d times", got)
		}
		pass(1)
		if got := l.burials(); got != 2 {
			t.Errorf("judged %d times", got)
		}
	})
}

// A burial that gets stuck must not make the replica itself look dead.
func TestBeatsBesideAStuckBurial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &list{stuck: true}
		_, pass := run(t, l, func() {})
		pass(12)
		for i := 1; i < len(l.beats); i++ {
			if gap := l.beats[i].Sub(l.beats[i-1]); gap > replica.Silence-replica.Period {
				t.Errorf("%v between two beats", gap)
			}
		}
	})
}

func TestJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &list{}
		m, pass := run(t, l, func() {})
		l.set(func() { l.struck = true })
		pass(1)
		if m.ID() != 2 {
			t.Errorf("id = %d after it was struck off, want a new one", m.ID())
		}
		if err := m.Leave(t.Context()); err != nil || len(l.left) != 1 || l.left[0] != 2 {
			t.Errorf("left %v, %v", l.left, err)
		}
		l.set(func() { l.struck = true })
		pass(3)
		if m.ID() != 2 || l.joined != 2 {
			t.Error("joined again after it left")
		}
	})
}

func TestTellsOfFreedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported := 0
		l := &list{frees: 3}
		_, pass := run(t, l, func() { reported++ })
		pass(3)
		if reported != 2 {
			t.Errorf("reported %d times, want 2", reported)
		}
	})
}
