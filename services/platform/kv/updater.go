package kv

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// backOff is how long an Updater does not call a store that failed.
const backOff = time.Second

var (
	// ErrAlone means that the replica has no store to ask: none is configured, or it failed within the last second.
	ErrAlone = errors.New("kv: no store")
	// ErrContended means that other replicas changed a text too often for a change to be made.
	ErrContended = errors.New("kv: the text changes too fast")
)

// Options of an Updater.
type Options struct {
	// Store is shared with the other replicas; nil for a replica that is alone.
	Store Store
	// Timeout bounds one read of the store, and one read and swap of an update; zero leaves both to the context.
	Timeout time.Duration
	// Tries is how often a change is decided again whose text another replica has swapped meanwhile.
	Tries int
	// Reconnects is how many calls may fail in a row, other than to connect, before the store counts as away. After a
	// restart of a server each connection that was kept fails once. A change whose answer was lost is decided again
	// upon what it made.
	Reconnects int
	Now        func() time.Time
}

// Updater changes the texts of a store. While the store is away its callers decide by what they know alone, and it asks
// the store again after a second. It is safe for concurrent use.
type Updater struct {
	o Options

	mu sync.Mutex
	// alone is the time until which the store is not called.
	alone time.Time
}

// NewUpdater returns an Updater of o.Store.
func NewUpdater(o Options) *Updater { return &Updater{o: o} }

// Alone reports whether the store must not be called now: there is none, or it failed within the last second.
func (u *Updater) Alone() bool {
	if u.o.Store == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.o.Now().Before(u.alone)
}

// Get returns the text of a key, ErrAlone without a store to ask, or the store's error.
func (u *Updater) Get(ctx context.Context, key string) (text string, err error) {
	if u.Alone() {
		return "", ErrAlone
	}
	err = u.reach(ctx, func(ctx context.Context) error {
		texts, err := u.o.Store.Get(ctx, []string{key})
		if err == nil {
			text = texts[0]
		}
		return err
	})
	return text, err
}

// Step decides the next text of keys[i] and its life. It may be asked more than once for a key, each time with another
// old text; the last answer counts.
type Step func(i int, old string) (next string, life time.Duration)

// Update replaces the text of each key by what step makes of it, and reports for each whether the store has it. The
// caller decides alone about the others, for the reason err: ErrAlone, ErrContended, or the store's error. Keys must
// differ.
func (u *Updater) Update(ctx context.Context, keys []string, step Step) (made []bool, err error) {
	made = make([]bool, len(keys))
	left := make([]int, len(keys))
	for i := range keys {
		left[i] = i
	}
	for range u.o.Tries {
		if len(left) == 0 {
			return made, nil
		}
		if u.Alone() {
			return made, ErrAlone
		}
		err := u.reach(ctx, func(ctx context.Context) error { return u.try(ctx, keys, left, made, step) })
		if err != nil {
			return made, err
		}
		left = remaining(left, made)
	}
	if len(left) > 0 {
		return made, ErrContended
	}
	return made, nil
}

// try reads the texts of the keys at places, swaps each for its next one, and marks those that were swapped.
func (u *Updater) try(ctx context.Context, keys []string, places []int, made []bool, step Step) error {
	asked := make([]string, len(places))
	for n, i := range places {
		asked[n] = keys[i]
	}
	old, err := u.o.Store.Get(ctx, asked)
	if err != nil {
		return err
	}
	swaps := make([]Swap, len(places))
	for n, i := range places {
		next, life := step(i, old[n])
		swaps[n] = Swap{Key: keys[i], Old: old[n], New: next, Life: life}
	}
	swapped, err := u.o.Store.Swap(ctx, swaps)
	if err != nil {
		return err
	}
	for n, i := range places {
		made[i] = swapped[n]
	}
	return nil
}

func remaining(places []int, made []bool) []int {
	var left []int
	for _, i := range places {
		if !made[i] {
			left = append(left, i)
		}
	}
	return left
}

// reach calls the store, again where a connection that was kept is broken, and leaves it alone for a while when there is
// no answer.
func (u *Updater) reach(ctx context.Context, call func(context.Context) error) (err error) {
	if u.o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, u.o.Timeout)
		defer cancel()
	}
	for range u.o.Reconnects + 1 {
		if err = call(ctx); err == nil {
			return nil
		}
		if failed, ok := errors.AsType[*net.OpError](err); ctx.Err() != nil || ok && failed.Op == "dial" {
			break
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.alone = u.o.Now().Add(backOff)
	return err
}
