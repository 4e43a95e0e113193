package api

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/sse"
	"switchyard.dev/services/platform/rpc"
)

// Feed follows inboxes, as inbox.Feed does.
type Feed interface {
	Open(ctx context.Context, at inbox.Address, after *int64) (*inbox.Stream, error)
}

const (
	streamPath   = "/v1/notifications/stream"
	streamMethod = "/switchyard.notify.v1.InboxService/StreamNotifications"

	headerLastEvent = "Last-Event-ID"
	// retryMillis is how long a browser waits before it resumes.
	retryMillis = 2000
)

// open opens a stream of either face.
func (s *inboxServer) open(ctx context.Context, in *notifyv1.StreamNotificationsRequest) (*inbox.Stream, error) {
	at, err := address(ctx, in.GetOrganizationId(), in.GetUserId())
	if err != nil {
		return nil, err
	}
	return s.feed.Open(ctx, at, lastSeen(in.GetLastEventId()))
}

// unknownEvent is the position of a reader whose last event id is not valid.
const unknownEvent = -1

// lastSeen returns the sequence number in the id of the last event; nil for no id.
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

// streamHandler serves the stream as server-sent events.
func streamHandler(server *rpc.Server, s *inboxServer) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		query := r.URL.Query()
		in := &notifyv1.StreamNotificationsRequest{
			OrganizationId: query.Get("organization_id"), UserId: query.Get("user_id"), LastEventId: query.Get("last_event_id"),
		}
		// A browser that reconnects by itself keeps the URL, so the header is newer.
		if id := r.Header.Get(headerLastEvent); id != "" {
			in.LastEventId = id
		}
		if err := rpc.Validate(in); err != nil {
			return err
		}
		stream, err := s.open(r.Context(), in)
		if err != nil {
			return err
		}
		answer := sse.Begin(w, r)
		events := &sseWriter{answer: answer, encode: server.Encode}
		if !answer.Detach(stream.End) {
			return stream.Follow(r.Context(), events)
		}
		ctx, end := rpc.Detach(r.Context())
		stream.Start(ctx, events, func(err error) {
			answer.Close(err == nil)
			end(err)
		})
		return nil
	}
}

// sseWriter writes each event immediately.
type sseWriter struct {
	answer *sse.Answer
	encode func(proto.Message) ([]byte, error)
	begun  bool
}

// Event implements inbox.Writer.
func (s *sseWriter) Event(e inbox.Event) error {
	data, err := s.encode(eventMessage(e))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if !s.begun {
		s.begun = true
		b.WriteString("retry: " + strconv.Itoa(retryMillis) + "\n")
	}
	b.WriteString("id: " + eventID(e) + "\nevent: " + string(e.Kind) + "\ndata: ")
	b.Write(data)
	b.WriteString("\n\n")
	return s.answer.Write(b.Bytes())
}

// KeepAlive implements inbox.Writer.
func (s *sseWriter) KeepAlive() error { return s.answer.Write([]byte(": beat\n\n")) }

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
