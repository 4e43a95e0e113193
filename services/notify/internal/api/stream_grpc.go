package api

import (
	"context"
	"time"

	"google.golang.org/grpc"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/sse"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/lifecycle"
)

// errSlowReader ends the stream of a client that does not read.
var errSlowReader = apierr.New(apierr.KindUnavailable, "slow_reader", "events were not read for too long; resume after the last one")

// StreamNotifications sends each change of an inbox over gRPC.
func (s *inboxServer) StreamNotifications(in *notifyv1.StreamNotificationsRequest, out grpc.ServerStreamingServer[notifyv1.InboxEvent]) error {
	stream, err := s.open(out.Context(), in)
	if err != nil {
		return err
	}
	w := newGRPCWriter(out.Send)
	err = stream.Follow(out.Context(), w)
	if taken := w.close(); err == nil && !taken {
		return errSlowReader
	}
	return err
}

// grpcWriter bounds each write, which gRPC does not: its Send waits for a client that does not read until the call
// ends.
type grpcWriter struct {
	events chan *notifyv1.InboxEvent
	failed chan error
	ended  chan struct{}
	slow   bool
}

// newGRPCWriter starts the goroutine that sends. It ends with close or, during a Send, with the call.
func newGRPCWriter(send func(*notifyv1.InboxEvent) error) *grpcWriter {
	w := &grpcWriter{events: make(chan *notifyv1.InboxEvent), failed: make(chan error, 1), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		err := lifecycle.Protect(context.Background(), "inbox stream", func() error {
			for event := range w.events {
				if err := send(event); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			w.failed <- err
		}
	}()
	return w
}

// close waits for the last event to be sent, and reports whether it was.
func (w *grpcWriter) close() bool {
	close(w.events)
	if w.slow {
		return false
	}
	timer := time.NewTimer(sse.WriteTime)
	defer timer.Stop()
	select {
	case <-w.ended:
		return true
	case <-timer.C:
		return false
	}
}

// Event implements inbox.Writer. It waits until the previous event has been sent.
func (w *grpcWriter) Event(e inbox.Event) error {
	timer := time.NewTimer(sse.WriteTime)
	defer timer.Stop()
	select {
	case w.events <- eventMessage(e):
		return nil
	case err := <-w.failed:
		return err
	case <-timer.C:
		w.slow = true
		return errSlowReader
	}
}

// KeepAlive implements inbox.Writer. HTTP/2 has its own keep-alive.
func (*grpcWriter) KeepAlive() error { return nil }
