package shared_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/notify/internal/shared"
	"switchyard.dev/services/platform/kv"
	"switchyard.dev/services/platform/kv/kvtest"
)

// server is a server in memory. Its next answers may be errors, it may not answer
// at all, and a rival may change the state before each swap.
type server struct {
	kvtest.Memory

	mu     sync.Mutex
	broken int
	silent bool
	dead   bool
	rival  bool
	asked  int
}

var errBroken = errors.New("connection reset")

func (s *server) answer(ctx context.Context) error {
	s.mu.Lock()
	s.asked++
	broken, silent, dead := s.broken > 0, s.silent, s.dead
	s.broken = max(s.broken-1, 0)
	s.mu.Unlock()
	switch {
	case silent:
		<-ctx.Done()
		return ctx.Err()
	case dead:
		return fmt.Errorf("read state: %w", &net.OpError{Op: "dial", Err: errBroken})
	case broken:
		return errBroken
	}
	return nil
}

func (s *server) Get(ctx context.Context, keys []string) ([]string, error) {
	if err := s.answer(ctx); err != nil {
		return nil, err
	}
	return s.Memory.Get(ctx, keys)
}

func (s *server) Swap(ctx context.Context, swaps []kv.Swap) ([]bool, error) {
	if err := s.answer(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	rival := s.rival
	s.mu.Unlock()
	if rival {
		s.Set("k", plusOne(s.Texts()["k"]))
	}
	return s.Memory.Swap(ctx, swaps)
}

func plusOne(text string) string { return strconv.Itoa(number(text) + 1) }

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// greater is the copy of a count that counts.
func greater(a, b string) string {
	if number(a) > number(b) {
		return a
	}
	return b
}

func states(store kv.Store) *shared.States {
	return shared.New(shared.Options{Store: store, Merge: greater, Life: time.Hour, Log: slog.New(slog.DiscardHandler), Now: time.Now})
}

func newServer() *server { return &server{} }

// What every store of states has to do: each change builds on the one before,
// whichever replica made that.
func TestChangesAreMadeUponEachOther(t *testing.T) {
	s := newServer()
	one, two := states(s), states(s)
	var all sync.WaitGroup
	for range 20 {
		for _, replica := range []*shared.States{one, two} {
			all.Go(func() { replica.Change(t.Context(), "k", plusOne) })
		}
	}
	all.Wait()
	if got := one.Look(t.Context(), "k", 0); got != "40" || s.Texts()["k"] != "40" {
		t.Errorf("after 40 changes %s, kept %s", got, s.Texts()["k"])
	}
}

// A server that comes back after a restart has every kept connection broken: that
// is no reason to go on alone.
func TestBrokenConnectionsAreReplaced(t *testing.T) {
	s := newServer()
	one, two := states(s), states(s)
	one.Change(t.Context(), "k", plusOne)
	s.broken = 40
	one.Change(t.Context(), "k", plusOne)
	s.broken = 40
	if got := two.Look(t.Context(), "k", time.Second); got != "2" || s.Texts()["k"] != "2" {
		t.Errorf("the other replica sees %s, the server holds %s", got, s.Texts()["k"])
	}
}

// A server that is away costs one wait, then none for a while; the replica goes on
// from what it knows, and what it did alone counts when the server is back, emptied.
func TestServerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		one := states(s)
		one.Change(t.Context(), "k", plusOne)
		s.silent = true
		began := time.Now()
		one.Change(t.Context(), "k", plusOne)
		first, asked := time.Since(began), s.asked
		for range 10 {
			one.Change(t.Context(), "k", plusOne)
		}
		if took := time.Since(began); first > 300*time.Millisecond || took != first || s.asked != asked {
			t.Errorf("the first change took %v, all %v, and the server was asked %d times more", first, took, s.asked-asked)
		}
		if got := one.Look(t.Context(), "k", 0); got != "12" {
			t.Errorf("alone it knows %s", got)
		}
		s.silent = false
		s.Clear()
		time.Sleep(time.Second)
		one.Change(t.Context(), "k", plusOne)
		if s.Texts()["k"] != "13" {
			t.Errorf("the server that came back holds %s", s.Texts()["k"])
		}
	})
}

// There is an end of asking, and a server that refuses is asked once.
func TestTriesAreBounded(t *testing.T) {
	s := newServer()
	s.dead = true
	dead := states(s)
	dead.Change(t.Context(), "k", plusOne)
	if s.asked != 1 || dead.Look(t.Context(), "k", time.Hour) != "1" {
		t.Errorf("a dead server was asked %d times", s.asked)
	}
	s = newServer()
	s.broken = 1 << 30
	one := states(s)
	one.Change(t.Context(), "k", plusOne)
	if s.asked > 100 || one.Look(t.Context(), "k", time.Hour) != "1" {
		t.Errorf("it was asked %d times", s.asked)
	}
	s = newServer()
	s.rival = true
	one = states(s)
	one.Change(t.Context(), "k", plusOne)
	if s.asked > 200 {
		t.Errorf("a contended state was asked for %d times", s.asked)
	}
	s.rival = false
	if one.Change(t.Context(), "k", plusOne); s.Texts()["k"] == "" || number(s.Texts()["k"]) < 60 {
		t.Errorf("contention sent it alone: %q", s.Texts()["k"])
	}
}

// Copies are let go once there are too many, and when they are old.
func TestCopiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alone := states(nil)
		for i := range 20_500 {
			alone.Change(t.Context(), strconv.Itoa(i), plusOne)
		}
		left := 0
		for i := range 20_500 {
			if alone.Look(t.Context(), strconv.Itoa(i), 0) != "" {
				left++
			}
		}
		if left > 20_000 || left < 17_500 {
			t.Errorf("%d copies are kept", left)
		}
		time.Sleep(61 * time.Minute)
		var seen []string
		alone.Change(t.Context(), "20499", func(old string) string { seen = append(seen, old); return plusOne(old) })
		if strings.Join(seen, "") != "" {
			t.Errorf("after its life a copy still says %q", seen)
		}
	})
}
