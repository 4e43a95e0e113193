package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"switchyard.dev/services/platform/batch"
	"switchyard.dev/services/platform/lifecycle"
)

const (
	// pollEvery bounds how long the work of another replica's request waits.
	pollEvery = time.Second
	// storeTimeout bounds one call of the store.
	storeTimeout = 5 * time.Second
	// takeMost bounds one claim, settleMost one settle.
	takeMost, settleMost = 128, 256
	// minRetry and maxRetry bound the delay between tries while the store is unavailable.
	minRetry, maxRetry = 50 * time.Millisecond, 2 * time.Second
)

// Engine is the dispatcher of one channel.
type Engine struct {
	o      Options
	meters meters
	share  *share

	wake     chan struct{}
	slots    chan struct{}
	results  *batch.Queue[Result]
	draining chan struct{}
	finished chan struct{}

	drainOnce sync.Once
	abandon   chan struct{}
	giveUp    sync.Once
}

// New returns an engine; Run starts it.
func New(o Options) (*Engine, error) {
	m, err := newMeters(o.Meter, o.Channel)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		o: o, meters: m, share: newShare(o.Share), wake: make(chan struct{}, 1), slots: make(chan struct{}, o.InFlight),
		draining: make(chan struct{}), finished: make(chan struct{}), abandon: make(chan struct{}),
	}
	e.results = batch.NewQueue(batch.Options{Size: settleMost, Most: settleMost}, e.settle)
	return e, nil
}

// Wake notifies the engine that work may be due. It never blocks.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run dispatches until ctx ends or Drain has finished. When ctx ends, attempts in flight are cancelled.
func (e *Engine) Run(ctx context.Context) error {
	defer close(e.finished)
	sending, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	stop := context.AfterFunc(ctx, e.cut)
	defer stop()
	claiming, halt := context.WithCancel(ctx)
	defer halt()

	var background, senders sync.WaitGroup
	background.Go(func() {
		select {
		case <-e.abandon:
			cut()
		case <-sending.Done():
		}
	})
	background.Go(func() {
		select {
		case <-e.draining:
			halt()
		case <-claiming.Done():
		}
	})
	endSettling := e.startSettling(context.WithoutCancel(ctx))

	e.claim(claiming, sending, &senders)
	senders.Wait()
	err := endSettling()
	halt()
	cut()
	background.Wait()
	return err
}

// Drain stops claiming and waits for the attempts in flight. When ctx ends first, they are cancelled and settled with
// what is known of them.
func (e *Engine) Drain(ctx context.Context) error {
	e.drainOnce.Do(func() { close(e.draining) })
	select {
	case <-e.finished:
		return nil
	case <-ctx.Done():
	}
	e.cut()
	<-e.finished
	return nil
}

func (e *Engine) cut() { e.giveUp.Do(func() { close(e.abandon) }) }

// claim leases due recipients while slots are free, until ctx ends.
func (e *Engine) claim(ctx, sending context.Context, senders *sync.WaitGroup) {
	for e.slot(ctx) {
		count := 1
		for count < takeMost && e.trySlot() {
			count++
		}
		full := e.share.full()
		taken := e.take(ctx, count, full)
		for i := range taken {
			senders.Go(func() { e.results.Put(e.protected(sending, taken[i])) })
		}
		for range count - len(taken) {
			<-e.slots
		}
		if len(taken) < count && !e.rest(ctx, len(full) > 0) {
			return
		}
	}
}

// slot waits for a free slot. The slot is freed once the result of the attempt is settled.
func (e *Engine) slot(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	default:
	}
	select {
	case e.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *Engine) trySlot() bool {
	select {
	case e.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (e *Engine) take(ctx context.Context, count int, passOver []string) (taken []Leased) {
	// Not cancelled by a drain: recipients leased without the engine's knowledge would count as lost.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	err := lifecycle.Protect(ctx, "notify claim", func() (err error) {
		taken, err = e.o.Store.Take(ctx, Claim{Channel: e.o.Channel, Count: count, Lease: e.o.Lease, PassOver: passOver})
		return err
	})
	if err != nil {
		e.o.Log.WarnContext(ctx, "claim failed", slog.String("channel", string(e.o.Channel)), slog.String("error", err.Error()))
	}
	return taken
}

// rest waits until work may be due again; it returns false when ctx has ended. Skipped recipients are due already:
// the end of an attempt wakes the engine for them.
func (e *Engine) rest(ctx context.Context, passedOver bool) bool {
	wait := pollEvery
	asking, cancel := context.WithTimeout(ctx, storeTimeout)
	if passedOver {
		wait = shareWait
	} else if next, err := e.o.Store.NextDue(asking, e.o.Channel); err == nil {
		wait = min(max(next, time.Millisecond), pollEvery)
	}
	cancel()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-e.wake:
	case <-timer.C:
	}
	return true
}
