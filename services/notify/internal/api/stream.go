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

// StreamNotifications sends each change of an inbox over gRPC.
func (s *inboxServer) StreamNotifications(in *notifyv1.StreamNotificationsRequest, stream grpc.ServerStreamingServer[notifyv1.InboxEvent]) error {
	return s.follow(stream.Context(), in, grpcWriter{stream})
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

type grpcWriter struct {
	stream grpc.ServerStreamingServer[notifyv1.InboxEvent]
}

// Event implements inbox.Writer.
func (w grpcWriter) Event(e inbox.Event) error { return w.stream.Send(eventMessage(e)) }

// Beat implements inbox.Writer: HTTP/2 has its own.
func (grpcWriter) Beat() error { return nil }

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
