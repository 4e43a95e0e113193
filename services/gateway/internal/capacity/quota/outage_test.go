package quota

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A replica that has never reached the store, and isn't alone, has nothing for a minute.
func TestNeverReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &network{Memory: &Memory{}}
		store.set(true)
		b := running(t, Options{Store: store, Replicas: 3})
		claims := claim("x/1", Limit{Tokens: 900}, 10)
		time.Sleep(59 * time.Second)
		refused(t, b, Demand{Claims: claims}, CauseStore)
		time.Sleep(3 * time.Second)
		must(t, b, claim("x/1", Limit{Tokens: 900}, 300))
		refused(t, b, Demand{Claims: claims}, CauseStore)
	})
}

// A replica that was told of the others, but not yet of what they have booked, has nothing for a minute either.
func TestNeverRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := running(t, Options{Store: unread{&network{Memory: &Memory{}}}})
		claims := claim("x/1", Limit{Tokens: 900}, 10)
		for range 60 {
			refused(t, b, Demand{Claims: claims}, CauseStore)
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		must(t, b, claims)
	})
}

// unread is a store of which only reading fails.
type unread struct{ *network }

func (unread) Snapshots(context.Context, string, []Subject) ([]Snapshot, time.Time, error) {
	return nil, time.Time{}, errAway
}

// A replica remembers what others have booked of a subject that it grants nothing of.
func TestOutageOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &network{Memory: &Memory{}}
		first, second := running(t, Options{Store: store}), running(t, Options{Store: store})
		time.Sleep(3 * time.Second)
		must(t, first, claim("x/1", Limit{Tokens: 900}, 900))
		refused(t, second, Demand{Claims: claim("x/1", Limit{Tokens: 900}, 10)}, CauseLimit)
		time.Sleep(20 * time.Second)
		store.set(true)
		time.Sleep(20 * time.Second)
		refused(t, second, Demand{Claims: claim("x/1", Limit{Tokens: 900}, 10)}, CauseStore)
		time.Sleep(25 * time.Second)
		must(t, second, claim("x/1", Limit{Tokens: 900}, 450))
	})
}

// A store that does not answer is waited for once, not by each call.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{network: network{Memory: &Memory{}}}
		b := running(t, Options{Store: store})
		time.Sleep(3 * time.Second)
		store.hang(true)
		claims := claim("x/1", Limit{Tokens: 1000}, 1)
		begun := time.Now()
		for range 100 {
			must(t, b, claims)
		}
		if took := time.Since(begun); took != reserveTimeout {
			t.Errorf("100 calls took %v, want %v", took, reserveTimeout)
		}
		store.hang(false)
		time.Sleep(3 * time.Second)
		if !b.Shared() {
			t.Error("the store is not used again")
		}
	})
}

type slow struct {
	network

	hangs bool
}

func (s *slow) hang(hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = hangs
}

func (s *slow) Reserve(ctx context.Context, r Request) (Grant, error) {
	s.mu.Lock()
	hangs := s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return Grant{}, ctx.Err()
	}
	return s.network.Reserve(ctx, r)
}
