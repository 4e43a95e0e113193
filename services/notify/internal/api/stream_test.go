package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/postgres"
)

// source is an open stream of the JSON face.
type source struct {
	header http.Header
	lines  *bufio.Scanner
	end    context.CancelFunc
}

// streamed is one event as a browser reads it.
type streamed struct {
	ID, Event string
	Data      struct {
		ID             string  `json:"id"`
		Event          string  `json:"event"`
		Record         *record `json:"notification"`
		NotificationID string  `json:"notification_id"`
		Unread         int     `json:"unread_count"`
	}
}

func (b *bench) stream(t *testing.T, query string, headers ...string) *source {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.http.URL+"/v1/notifications/stream"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer svc")
	r.Header.Set("X-Organization-Id", "acme")
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	resp, err := b.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	return &source{resp.Header, bufio.NewScanner(resp.Body), cancel}
}

// next reads an event; false at the end of the stream.
func (s *source) next(t *testing.T) (streamed, bool) {
	t.Helper()
	var e streamed
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "id":
			e.ID = value
		case "event":
			e.Event = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e.Data); err != nil {
				t.Error(err)
			}
		case "":
			if e.Event != "" {
				return e, true
			}
		}
	}
	return e, false
}

func (s *source) want(t *testing.T, want ...string) []streamed {
	t.Helper()
	var got []string
	var events []streamed
	for range want {
		e, ok := s.next(t)
		if !ok {
			break
		}
		if e.ID != e.Data.ID || e.Event != e.Data.Event {
			t.Errorf("event %+v", e)
		}
		events = append(events, e)
		got = append(got, fmt.Sprint(e.Event, " ", e.ID, " ", e.Data.Unread))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	return events
}

func TestStreamTellsEachChange(t *testing.T) {
	b := setup(t)
	s := b.stream(t, "?user_id=ann")
	s.want(t, "ready 0 0")
	b.notifyUser(t, "ann", "one")
	b.notifyUser(t, "ann", "two")
	b.notifyUser(t, "bob", "not hers")
	created := s.want(t, "created 1 1", "created 2 2")
	r := created[0].Data.Record
	if r == nil {
		t.Fatal("the event has no record")
	}
	if r.Text != "one" || r.Read {
		t.Errorf("text %q, read %t, want one and unread", r.Text, r.Read)
	}
	if r.ID != created[0].Data.NotificationID {
		t.Errorf("record %s in an event of %s", r.ID, created[0].Data.NotificationID)
	}
	path := "/v1/notifications/" + created[0].Data.NotificationID
	b.do(t, "PUT", path+"/read", "").want(t, 200)
	b.do(t, "PUT", path+"/read", "").want(t, 200) // changes nothing
	if read := s.want(t, "read 3 1"); read[0].Data.Record == nil || !read[0].Data.Record.Read {
		t.Errorf("read %+v", read[0].Data)
	}
	b.do(t, "DELETE", path, "").want(t, 204)
	if deleted := s.want(t, "deleted 4 1"); deleted[0].Data.Record != nil || deleted[0].Data.NotificationID != created[0].Data.NotificationID {
		t.Errorf("deleted %+v", deleted[0].Data)
	}
	b.do(t, "PUT", "/v1/notifications/read-all", `{"user_id":"ann"}`).want(t, 200)
	if all := s.want(t, "read_all 5 0"); all[0].Data.NotificationID != "" {
		t.Errorf("read all %+v", all[0].Data)
	}
	s.end()

	resumed := b.stream(t, "?user_id=ann&last_event_id=1", "Last-Event-ID", "3")
	resumed.want(t, "ready 3 1", "deleted 4 1", "read_all 5 0")
	late := b.stream(t, "?user_id=ann&last_event_id=0")
	events := late.want(t, "ready 0 0", "created 1 1", "created 2 2", "read 3 1", "deleted 4 1", "read_all 5 0")
	if events[1].Data.Record != nil || events[2].Data.Record == nil || events[2].Data.Record.Read {
		t.Errorf("a deleted record %+v, one created unread %+v", events[1].Data.Record, events[2].Data.Record)
	}
	for _, unknown := range []string{"99", "x", "-1", "01"} {
		b.stream(t, "?user_id=ann", "Last-Event-ID", unknown).want(t, "reset 5 0")
	}
}

func TestStreamRefuses(t *testing.T) {
	b := setup(t)
	const path = "/v1/notifications/stream"
	b.do(t, "GET", path, "", "Authorization", "").refused(t, 401, "token")
	b.do(t, "GET", path, "", "Authorization", "Bearer sup").refused(t, 403, "role service")
	b.do(t, "GET", path+"?organization_id=evil", "").refused(t, 403, "organization_id")
	b.do(t, "GET", path+"?user_id=ann", "", "X-User-Id", "bob").refused(t, 400, "user_id")
	b.do(t, "GET", path+"?user_id=a%20b", "").refused(t, 400, "user_id")
	b.do(t, "GET", path+"?colour=red", "").refused(t, 400, "colour")
	b.do(t, "GET", path+"?last_event_id="+strings.Repeat("9", 200), "").refused(t, 400, "last_event_id")
	b.do(t, "POST", path, "").refused(t, 405, "not allowed")
	if err := b.feed.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	s := b.stream(t, "")
	s.want(t, "ready 0 0")
	if e, more := s.next(t); more {
		t.Errorf("after the drain: %+v", e)
	}
}

func TestStreamOverGRPC(t *testing.T) {
	b := setup(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer svc", "x-organization-id", "acme")
	stream, err := notifyv1.NewInboxServiceClient(b.conn).StreamNotifications(ctx, &notifyv1.StreamNotificationsRequest{UserId: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"ready", "created"} {
		e, err := stream.Recv()
		if err != nil || e.GetEvent() != want || e.GetUnreadCount() != int32(i) {
			t.Fatalf("%v, %v, want %s", e, err, want)
		}
		if want == "ready" {
			b.notifyUser(t, "ann", "one")
		}
	}
}

// Two replicas, several writers on each, readers that come and go: each reader
// sees every change once, in order, and the last count is exact.
func TestStreamsOverReplicas(t *testing.T) {
	b := setup(t)
	const writers, each = 4, 25
	ann := inbox.Address{Organization: "acme", User: "ann"}
	feeds := []*inbox.Feed{b.feed, inbox.NewFeed(postgres.NewInboxes(b.pool), 100, slog.New(slog.DiscardHandler))}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	var looking, reading, writing sync.WaitGroup
	for _, feed := range feeds {
		looking.Go(func() { _ = feed.Run(ctx) }) // no notice is sent for the second
	}
	const total = writers * (each + each/5)
	for i, feed := range feeds {
		for reader := range 3 {
			reading.Go(func() {
				got := collect(ctx, feed, ann, total, reader*7) // leaves after so many events, and resumes
				for n, e := range got {
					if e.Seq != int64(n+1) {
						t.Errorf("replica %d, reader %d: event %d is %d", i, reader, n+1, e.Seq)
						return
					}
				}
				if len(got) != total || got[total-1].Unread != writers*(each-each/5) {
					t.Errorf("replica %d, reader %d: %d events, want %d", i, reader, len(got), total)
				}
			})
		}
	}
	for range writers {
		writing.Go(func() {
			for n := range each {
				id := b.notifyUser(t, "ann", "m")
				if n%5 == 4 {
					b.do(t, "PUT", "/v1/notifications/"+b.recordOf(t, id)+"/read", "").want(t, 200)
				}
			}
		})
	}
	writing.Wait()
	reading.Wait()
	stop()
	looking.Wait()
}

// recordOf is the record that a send has stored.
func (b *bench) recordOf(t *testing.T, send string) (id string) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), "SELECT id::text FROM inbox_record WHERE notification_id = $1", send).Scan(&id); err != nil {
		t.Error(err)
	}
	return id
}

// collect follows an inbox from its beginning for so many changes, and leaves and
// resumes whenever it has read leaveAfter of them; zero never.
func collect(ctx context.Context, feed *inbox.Feed, at inbox.Address, total, leaveAfter int) []inbox.Event {
	var got []inbox.Event
	for len(got) < total && ctx.Err() == nil {
		after := int64(0)
		if len(got) > 0 {
			after = got[len(got)-1].Seq
		}
		w := &collector{most: total - len(got)}
		if leaveAfter > 0 {
			w.most = min(w.most, leaveAfter)
		}
		if stream, err := feed.Open(ctx, at, &after); err == nil {
			_ = stream.Follow(ctx, w)
		}
		got = append(got, w.events...)
	}
	return got
}

type collector struct {
	events []inbox.Event
	most   int
}

func (c *collector) Event(e inbox.Event) error {
	if e.Kind != inbox.EventReady {
		c.events = append(c.events, e)
	}
	if len(c.events) == c.most {
		return context.Canceled
	}
	return nil
}

func (c *collector) KeepAlive() error { return nil }
