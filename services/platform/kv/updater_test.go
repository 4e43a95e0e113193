package kv_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/kv"
	"switchyard.dev/services/platform/kv/kvtest"
)

// server is a store whose next calls may fail.
type server struct {
	kvtest.Memory

	// fail returns the error of the call with that number, from 1 on; nil makes the call.
	fail func(ctx context.Context, call int) error
	// rival changes the text of each key that is swapped just before.
	rival bool
	asked int
}

func (s *server) Get(ctx context.Context, keys []string) ([]string, error) {
	if err := s.next(ctx); err != nil {
		return nil, err
	}
	return s.Memory.Get(ctx, keys)
}

func (s *server) Swap(ctx context.Context, swaps []kv.Swap) ([]bool, error) {
	if err := s.next(ctx); err != nil {
		return nil, err
	}
	if s.rival {
		for _, w := range swaps {
			s.Set(w.Key, w.Old+"'")
		}
	}
	return s.Memory.Swap(ctx, swaps)
}

func (s *server) next(ctx context.Context) error {
	if s.asked++; s.fail == nil {
		return nil
	}
	return s.fail(ctx, s.asked)
}

func broken(context.Context, int) error { return errors.New("connection reset") }

func refused(context.Context, int) error { return &net.OpError{Op: "dial", Err: errors.New("refused")} }

func silent(ctx context.Context, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

func plusOne(_ int, old string) (string, time.Duration) {
	n, _ := strconv.Atoi(old) // The empty text is 0.
	return strconv.Itoa(n + 1), time.Minute
}

func TestUpdate(t *testing.T) {
	u := kv.NewUpdater(kv.Options{Store: new(kvtest.Memory), Tries: 1, Now: time.Now})
	for range 2 {
		made, err := u.Update(t.Context(), []string{"a", "b"}, plusOne)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]bool{true, true}, made); diff != "" {
			t.Errorf("made (-want +got):\n%s", diff)
		}
	}
	for _, key := range []string{"a", "b"} {
		if text, err := u.Get(t.Context(), key); err != nil || text != "2" {
			t.Errorf("Get(%q) = %q, %v, want 2", key, text, err)
		}
	}
}

// Replicas that change the same texts at once lose none of the changes.
func TestUpdateOfManyReplicas(t *testing.T) {
	store := new(kvtest.Memory)
	const replicas, each = 4, 25
	var all sync.WaitGroup
	for range replicas {
		u := kv.NewUpdater(kv.Options{Store: store, Tries: 1 << 20, Now: time.Now})
		all.Go(func() {
			for range each {
				if _, err := u.Update(t.Context(), []string{"a", "b"}, plusOne); err != nil {
					t.Errorf("update: %v", err)
				}
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff(map[string]string{"a": "100", "b": "100"}, store.Texts()); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
}

func TestUpdateThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		server     *server
		reconnects int
		err        error // nil for any
		asked      int
		alone      bool
	}{
		"others are faster":            {&server{rival: true}, 0, kv.ErrContended, 6, false},
		"a broken connection":          {&server{fail: broken}, 0, nil, 1, true},
		"every connection is broken":   {&server{fail: broken}, 5, nil, 6, true},
		"a server that refuses":        {&server{fail: refused}, 5, nil, 1, true},
		"a server that doesn't answer": {&server{fail: silent}, 5, context.DeadlineExceeded, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				u := kv.NewUpdater(kv.Options{
					Store: tt.server, Timeout: 100 * time.Millisecond, Tries: 3, Reconnects: tt.reconnects, Now: time.Now,
				})
				made, err := u.Update(t.Context(), []string{"a"}, plusOne)
				if err == nil || tt.err != nil && !errors.Is(err, tt.err) {
					t.Errorf("error %v, want %v", err, tt.err)
				}
				if diff := cmp.Diff([]bool{false}, made); diff != "" {
					t.Errorf("made (-want +got):\n%s", diff)
				}
				if tt.server.asked != tt.asked {
					t.Errorf("the store was asked %d times, want %d", tt.server.asked, tt.asked)
				}
				if took := time.Since(began); took > 100*time.Millisecond {
					t.Errorf("it took %v, want the timeout at most", took)
				}
				if u.Alone() != tt.alone {
					t.Errorf("Alone() = %t, want %t", u.Alone(), tt.alone)
				}
			})
		})
	}
}

// A store that failed is not called for a second, and then is called again.
func TestUpdaterBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(kvtest.Memory)
		u := kv.NewUpdater(kv.Options{Store: store, Tries: 1, Now: time.Now})
		store.SetAway(true)
		if _, err := u.Get(t.Context(), "a"); !errors.Is(err, kvtest.ErrAway) {
			t.Errorf("Get from a store that is away: %v, want its error", err)
		}
		store.SetAway(false)
		time.Sleep(time.Second - 1)
		calls := store.Calls()
		if _, err := u.Update(t.Context(), []string{"a"}, plusOne); !errors.Is(err, kv.ErrAlone) {
			t.Errorf("Update within a second: %v, want ErrAlone", err)
		}
		if _, err := u.Get(t.Context(), "a"); !errors.Is(err, kv.ErrAlone) {
			t.Errorf("Get within a second: %v, want ErrAlone", err)
		}
		if store.Calls() != calls {
			t.Errorf("the store was asked within a second")
		}
		time.Sleep(time.Nanosecond)
		made, err := u.Update(t.Context(), []string{"a"}, plusOne)
		if err != nil || !made[0] {
			t.Errorf("Update after a second: %v, %v", made, err)
		}
	})
}

// After a restart of a server each kept connection fails once.
func TestUpdaterReconnects(t *testing.T) {
	s := &server{fail: func(ctx context.Context, call int) error {
		if call > 20 {
			return nil
		}
		return broken(ctx, call)
	}}
	u := kv.NewUpdater(kv.Options{Store: s, Tries: 1, Reconnects: 20, Now: time.Now})
	if made, err := u.Update(t.Context(), []string{"a"}, plusOne); err != nil || !made[0] {
		t.Errorf("Update = %v, %v", made, err)
	}
}

func TestUpdaterWithoutStore(t *testing.T) {
	u := kv.NewUpdater(kv.Options{Tries: 1, Now: time.Now})
	if made, err := u.Update(t.Context(), []string{"a"}, plusOne); !errors.Is(err, kv.ErrAlone) || made[0] {
		t.Errorf("Update = %v, %v, want ErrAlone", made, err)
	}
	if _, err := u.Update(t.Context(), nil, plusOne); err != nil {
		t.Errorf("Update of no keys: %v", err)
	}
}
