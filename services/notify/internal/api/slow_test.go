package api

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/sse"
)

// A gRPC reader that takes nothing is cut: one event is with gRPC, the next one
// waits as long as a write may take, and nothing is queued behind it.
func TestSlowGRPCReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{}) // the call
		var sent []string
		w := newGRPCWriter(func(e *notifyv1.InboxEvent) error {
			if sent = append(sent, e.GetId()); len(sent) < 3 {
				return nil
			}
			<-ended
			return errors.New("the call has ended")
		})
		began := time.Now()
		for seq := range int64(3) {
			if err := w.Event(inbox.Event{Seq: seq + 1, Kind: inbox.EventReadAll}); err != nil {
				t.Fatal(err)
			}
		}
		err := w.Event(inbox.Event{Seq: 4, Kind: inbox.EventReadAll})
		if !errors.Is(err, errSlowReader) || !w.slow || time.Since(began) != sse.WriteTime {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if w.close() {
			t.Error("the last event was taken")
		}
		close(ended)
		synctest.Wait()
		if len(sent) != 3 {
			t.Errorf("sent %v", sent)
		}
	})
}

// What gRPC says of a reader that has gone ends the stream.
func TestGoneGRPCReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		w := newGRPCWriter(func(*notifyv1.InboxEvent) error { return gone })
		if err := w.Event(inbox.Event{Seq: 1}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := w.Event(inbox.Event{Seq: 2}); !errors.Is(err, gone) || w.slow {
			t.Errorf("%v", err)
		}
		w.close()
	})
}

// A stream that ends has its last event taken first.
func TestLastEventIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := false
		w := newGRPCWriter(func(*notifyv1.InboxEvent) error {
			time.Sleep(time.Second)
			taken = true
			return nil
		})
		if err := w.Event(inbox.Event{Seq: 1}); err != nil {
			t.Fatal(err)
		}
		if !w.close() || !taken {
			t.Error("it was not")
		}
	})
}
