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
	ErrAlone = errors.New("kv: no store available")
	// ErrContended means that other replicas changed a text too often for a change to be made.
	ErrContended = errors.New("kv: other replicas changed the text too often")
)

// Options of an Updater.
type Options struct {
	// Store is shared with the other replicas; nil for a replica without a shared store.
	Store Store
	// Timeout bounds one read of the store, and one read and swap of an update. Zero means that only the context bounds
	// them.
	Timeout time.Duration
	// Tries is how often an update is decided again if another replica has swapped the text in the meantime.
	Tries int
	// Reconnects is how many consecutive calls may fail, other than to connect, before the store counts as unreachable.
	// After a restart of a server, each kept connection fails once. If the response to a swap was lost, the update is
	// decided again from the text that the swap may have written.
	Reconnects int
	Now        func() time.Time
}

// Updater changes the texts of a store. While the store is unreachable, callers decide by their local state, and the
// store is called again after a second. It is safe for concurrent use.
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

// Get returns the text of a key, ErrAlone without a store to call, or the store's error.
func (u *Updater) Get(ctx context.Context, key string) (text string, err error) {
	texts, err := u.GetAll(ctx, []string{key})
	if err != nil {
		return "", err
	}
	return texts[0], nil
}

// GetAll is Get for several keys at once. The texts are in the order of the keys.
func (u *Updater) GetAll(ctx context.Context, keys []string) (texts []string, err error) {
	if u.Alone() {
		return nil, ErrAlone
	}
	err = u.reach(ctx, func(ctx context.Context) error {
		texts, err = u.o.Store.Get(ctx, keys)
		return err
	})
	return texts, err
}

// Step returns the next text of keys[i] and its lifetime. It may be called more than once for a key, each time with
// another old text; the last result counts.
type Step func(i int, old string) (next string, life time.Duration)

// Update replaces the text of each key by the result of step, and reports for each key whether the store has it. For
// the other keys the caller decides by its local state; err is the reason: ErrAlone, ErrContended, or the store's
// error. Keys must differ.
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

// try reads the texts of the keys at places, swaps each for its next one, and sets made for those that were swapped.
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

// reach calls the store, and repeats the call if a kept connection is broken. If the store doesn't answer, it is not
// called again for backOff.
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
