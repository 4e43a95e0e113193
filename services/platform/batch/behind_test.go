package batch_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"switchyard.dev/services/platform/batch"
	"switchyard.dev/services/platform/panics"
)

// What readers and the store see of a Behind, in order. Losing items and readers under load is tested where it is used.
func TestRounds(t *testing.T) {
	t.Parallel()
	var seen []string
	items, fault := 0, error(nil)
	b := batch.NewBehind(batch.BehindOptions{
		Linger: time.Hour, // so that a round that waits for it would hang
		Full:   func() bool { return true },
		Announce: func(context.Context) (func(), error) {
			seen = append(seen, "announce")
			return func() { seen = append(seen, "withdraw") }, fault
		},
		Store: func(context.Context) {
			seen = append(seen, "store")
			if items--; items < 0 {
				items = 0
				panic("bug in storing")
			}
		},
		Idle: func() bool { return items == 0 },
		Log:  slog.New(slog.DiscardHandler),
	})
	isOpen := func(announced <-chan struct{}) bool {
		select {
		case <-announced:
			return true
		default:
			return false
		}
	}
	announced := b.Wake()
	if <-b.Woken(); isOpen(announced) {
		t.Error("an item may be acknowledged before it is announced")
	}
	items = 2
	b.Rounds(t.Context())
	want := []string{"announce", "announce", "store", "withdraw", "announce", "store", "withdraw", "withdraw"}
	if !isOpen(announced) || !slices.Equal(seen, want) {
		t.Errorf("acknowledged: %t; saw %q, want %q", isOpen(announced), seen, want)
	}
	if announced = b.Wake(); isOpen(announced) {
		t.Error("an item of an idle time may be acknowledged before it is announced")
	}
	if err := panics.Call(func() error { b.Rounds(t.Context()); return nil }); !errors.Is(err, panics.Err) {
		t.Fatalf("a store that panics: %v", err)
	}
	items, fault = 1, errors.New("no connection")
	b.Rounds(t.Context())
	if items != 0 || !isOpen(announced) {
		t.Errorf("after a panic and without announcements: %d items are left, acknowledged: %t", items, isOpen(announced))
	}
}
