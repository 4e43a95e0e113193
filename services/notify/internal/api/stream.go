package api

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// Feed follows inboxes, as inbox.Feed does.
type Feed interface {
	Follow(ctx context.Context, at inbox.Address, after *int64, w inbox.Writer) error
}

const (
	streamPath   = "/v1/notifications/stream"
	streamMethod = "/switchyard.notify.v1.InboxService/StreamNotifications"

	headerLastEvent = "Last-Event-ID"

	// writeTime bounds one write: a reader that takes nothing is cut and resumes.
	writeTime = 10 * time.Second
	// retryMillis is how long a browser waits before it resumes.
	retryMillis = 2000
)

// errSlowReader ends the stream of a reader that takes nothing.
var errSlowReader = apierr.New(apierr.KindUnavailable, "slow_reader", "events were not read for too long; resume after the last one")

// StreamNotifications sends each change of an inbox over gRPC.
func (s *inboxServer) StreamNotifications(in *notifyv1.StreamNotificationsRequest, stream grpc.ServerStreamingServer[notifyv1.InboxEvent]) error {
	w := newGRPCWriter(stream.Send)
	err := s.follow(stream.Context(), in, w)
	if taken := w.close(); err == nil && !taken {
		return errSlowReader
	}
	return err
}

// follow starts a stream of either face.
func (s *inboxServer) follow(ctx context.Context, in *notifyv1.StreamNotificationsRequest, w inbox.Writer) error {
	at, err := address(ctx, in.GetOrganizationId(), in.GetUserId())
	if err != nil {
		return err
	}
	return s.feed.Follow(ctx, at, lastSeen(in.GetLastEventId()), w)
}

// unknownEvent is the place of a reader whose last event is none of ours.
const unknownEvent = -1

// lastSeen reads the id of the last event: nil for none.
func lastSeen(id string) *int64 {
	if id == "" {
		return nil
	}
	seq, err := strconv.ParseInt(id, 10, 64)
	if err != nil || seq < 0 || strconv.FormatInt(seq, 10) != id {
		seq = unknownEvent
	}
	return &seq
}

// grpcWriter bounds each write, which gRPC itself doesn't: its Send waits for a
// reader that takes nothing as long as the call lasts.
type grpcWriter struct {
	events chan *notifyv1.InboxEvent
	failed chan error
	ended  chan struct{}
	slow   bool
}

// newGRPCWriter starts the goroutine that sends. It ends with close, or, in the
// midst of a Send, when the call does.
func newGRPCWriter(send func(*notifyv1.InboxEvent) error) *grpcWriter {
	w := &grpcWriter{events: make(chan *notifyv1.InboxEvent), failed: make(chan error, 1), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		for event := range w.events {
			if err := send(event); err != nil {
				w.failed <- err
				return
			}
		}
	}()
	return w
}

// close waits until the last event is taken, and tells whether it was.
func (w *grpcWriter) close() bool {
	close(w.events)
	if w.slow {
		return false
	}
	timer := time.NewTimer(writeTime)
	defer timer.Stop()
	select {
	case <-w.ended:
		return true
	case <-timer.C:
		return false
	}
}

// Event implements inbox.Writer. An event waits for the one before it to be taken.
func (w *grpcWriter) Event(e inbox.Event) error {
	timer := time.NewTimer(writeTime)
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

// Beat implements inbox.Writer: HTTP/2 has its own.
func (*grpcWriter) Beat() error { return nil }

// streamHandler is the stream as server-sent events (WHATWG HTML, section 9.2).
func streamHandler(server *rpc.Server, s *inboxServer) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		query := r.URL.Query()
		in := &notifyv1.StreamNotificationsRequest{
			OrganizationId: query.Get("organization_id"), UserId: query.Get("user_id"), LastEventId: query.Get("last_event_id"),
		}
		// A browser that resumes by itself keeps the URL: the header is newer.
		if id := r.Header.Get(headerLastEvent); id != "" {
			in.LastEventId = id
		}
		if err := rpc.Validate(in); err != nil {
			return err
		}
		events := &sseWriter{w: w, control: http.NewResponseController(w), encode: server.Encode}
		return s.follow(r.Context(), in, events)
	}
}

// sseWriter writes each event at once.
type sseWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	encode  func(proto.Message) ([]byte, error)
	begun   bool
}

// Event implements inbox.Writer.
func (s *sseWriter) Event(e inbox.Event) error {
	data, err := s.encode(eventMessage(e))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if !s.begun {
		s.head()
		b.WriteString("retry: " + strconv.Itoa(retryMillis) + "\n")
	}
	b.WriteString("id: " + eventID(e) + "\nevent: " + string(e.Kind) + "\ndata: ")
	b.Write(data)
	b.WriteString("\n\n")
	return s.write(b.Bytes())
}

// Beat implements inbox.Writer.
func (s *sseWriter) Beat() error { return s.write([]byte(": beat\n\n")) }

func (s *sseWriter) head() {
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
}

func (s *sseWriter) write(text []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

func eventID(e inbox.Event) string { return strconv.FormatInt(e.Seq, 10) }

func eventMessage(e inbox.Event) *notifyv1.InboxEvent {
	out := &notifyv1.InboxEvent{
		Id: eventID(e), Event: string(e.Kind), UnreadCount: int32(e.Unread), OccurredAt: timestamppb.New(e.At),
	}
	if e.Record != nil {
		out.Notification = notificationMessage(*e.Record)
	}
	if e.Kind.OfRecord() {
		out.NotificationId = e.RecordID.String()
	}
	return out
}
