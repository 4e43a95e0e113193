package push

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pages answers as told, then finds nothing.
type pages struct{ answers []error }

var errNone = errors.New("none")

func (p *pages) AddPage(context.Context, int, int) (bool, error) {
	if len(p.answers) == 0 {
		return false, nil
	}
	err := p.answers[0]
	p.answers = p.answers[1:]
	if errors.Is(err, errNone) {
		return false, nil
	}
	return err == nil, err
}

func TestBroadcasterGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &pages{answers: []error{nil, nil, errors.New("away"), nil, errNone, nil}}
		var woken atomic.Int32
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- NewBroadcaster(store, func() { woken.Add(1) }, slog.New(slog.DiscardHandler)).Run(ctx) }()
		synctest.Wait()
		if n := woken.Load(); n != 2 {
			t.Errorf("%d pages at once, want 2", n)
		}
		time.Sleep(awayWait + idleWait + time.Millisecond)
		synctest.Wait()
		if n := woken.Load(); n != 4 || len(store.answers) != 0 {
			t.Errorf("%d pages after %v", n, time.Since(began))
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
