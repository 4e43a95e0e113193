package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/api/responses"
	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/bodymemory"
	"switchyard.dev/services/platform/fairshare"
)

func frame(lane string, size int) responses.Frame {
	return responses.Frame{Stream: lane, Body: make([]byte, size)}
}

// Requests of a lane are served in their order, and each bound refuses what exceeds it.
func TestLanes(t *testing.T) {
	l := newLanes(100)
	for i, tt := range []struct {
		frame responses.Frame
		first bool
		want  string // in the refusal
	}{
		{frame("a", 60), true, ""},
		{frame("a", 30), false, ""},
		{frame("b", 11), false, "too large together"},
		{frame("b", 10), true, ""},
		{frame("", 0), true, ""},
	} {
		first, err := l.add(tt.frame, new(bodymemory.Hold))
		if first != tt.first || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%d: %t %v, want %t %s", i, first, err, tt.first, tt.want)
		}
	}
	if f := l.first("a"); len(f.Body) != 60 || !l.next("a") || len(l.first("a").Body) != 30 || l.next("a") {
		t.Error("the requests of a lane are not served in their order")
	}
	if l.held != 10 || len(l.by) != 2 {
		t.Errorf("%d bytes in %d lanes, want 10 in 2", l.held, len(l.by))
	}
}

func TestLanesAreBounded(t *testing.T) {
	l := newLanes(0)
	for i := range maxLanes {
		if _, err := l.add(frame(fmt.Sprint(i), 0), new(bodymemory.Hold)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxWaitingFrames {
		if _, err := l.add(frame("0", 0), new(bodymemory.Hold)); err != nil {
			t.Fatal(i, err)
		}
	}
	for _, lane := range []string{"0", "one more"} {
		if _, err := l.add(frame(lane, 0), new(bodymemory.Hold)); err == nil || apierr.From(err).Kind != apierr.KindRateLimited {
			t.Errorf("lane %s: %v, want a refusal", lane, err)
		}
	}
	if _, err := newLanes(10).add(frame("a", 11), new(bodymemory.Hold)); err != nil {
		t.Errorf("a request alone: %v", err)
	}
}

// A request holds its memory until it is served, or the connection has ended.
func TestLanesHoldMemory(t *testing.T) {
	bodies := bodymemory.New(1<<20, 1<<20, 1)
	free := func() (n int) { // in KiB
		h := bodies.Open("other")
		defer h.Close()
		for h.Grow(1<<10) == nil {
			n++
		}
		return n
	}
	whole := free()
	l := newLanes(1 << 30)
	for i := range 3 {
		memory := bodies.Open("acme")
		if err := memory.Grow(bodymemory.Free + 100<<10); err != nil {
			t.Fatal(err)
		}
		if _, err := l.add(frame("a", i), &memory); err != nil {
			t.Fatal(err)
		}
		memory.Close() // The lane has it.
	}
	if got := whole - free(); got != 300 {
		t.Errorf("three requests hold %d KiB, want 300", got)
	}
	l.next("a")
	if got := whole - free(); got != 200 {
		t.Errorf("two requests hold %d KiB, want 200", got)
	}
	l.close()
	if got := free(); got != whole {
		t.Errorf("%d KiB are free after the connection, want %d", got, whole)
	}
}

func TestLanesCancel(t *testing.T) {
	for _, tt := range []struct {
		name  string
		frame responses.Frame
		want  []string
	}{
		{"its lane", responses.Frame{Stream: "a"}, []string{"a"}},
		{"the default lane", responses.Frame{}, nil},
		{"by id", responses.Frame{Response: "resp_b"}, []string{"b"}},
		{"by the id, whatever the lane", responses.Frame{Stream: "a", Response: "resp_b"}, []string{"b"}},
		{"one that has ended", responses.Frame{Stream: "a", Response: "resp_0"}, nil},
	} {
		l := newLanes(0)
		ended := make(map[string]error)
		for _, lane := range []string{"a", "b"} {
			_, _ = l.add(frame(lane, 0), new(bodymemory.Hold))
			l.serve(lane, func(cause error) { ended[lane] = cause })
			l.answer(lane, "resp_"+lane)
		}
		l.cancel(tt.frame)
		var got []string
		for _, lane := range []string{"a", "b"} {
			if errors.Is(ended[lane], errCancelled) {
				got = append(got, lane)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v ended, want %v", tt.name, got, tt.want)
		}
	}
}

func held(id string, bytes int) recalled {
	text := json.RawMessage(strings.Repeat(" ", bytes))
	return recalled{id: id, scope: conversation.Scope{Organization: "acme"}, turns: []responses.Record{{Input: text}}}
}

// A connection recalls the newest response of each lane, to its owner, within its memory.
func TestRecall(t *testing.T) {
	pool := fairshare.New(100, 100)
	m := &recall{pool: pool, organization: "acme", lanes: make(map[string]recalled)}
	scope := conversation.Scope{Organization: "acme"}
	knows := func(ids ...string) {
		t.Helper()
		for _, id := range []string{"1", "2", "3", "large"} {
			_, ok := m.find(scope, id)
			if want := strings.Contains(strings.Join(ids, " "), id); ok != want {
				t.Errorf("%s is held: %t, want %t", id, ok, want)
			}
		}
	}
	m.keep("a", held("1", 40))
	m.keep("b", held("2", 40))
	knows("1", "2")
	m.keep("a", held("3", 50))
	knows("2", "3")
	if _, ok := m.find(conversation.Scope{Organization: "acme", Owner: "bob"}, "2"); ok {
		t.Error("another owner finds it")
	}
	m.keep("b", held("large", 60)) // Neither is held then: the lane's older response can't be continued any more.
	knows("3")
	m.forget("3")
	knows()
	m.keep("a", held("1", 1))
	m.close()
	if pool.Held() != 0 {
		t.Errorf("%d bytes are charged after the end", pool.Held())
	}
}

func TestRecallIsBounded(t *testing.T) {
	m := &recall{pool: fairshare.New(1<<40, 100), lanes: make(map[string]recalled)}
	for i := range 2 * maxLanes {
		m.keep(fmt.Sprint(i), held(fmt.Sprint(i), 1))
	}
	if len(m.lanes) != maxLanes || m.oldest() != fmt.Sprint(maxLanes) {
		t.Errorf("%d lanes are held, the oldest is %s", len(m.lanes), m.oldest())
	}
	m.keep("large", held("large", conversation.MaxBytes))
	if len(m.lanes) != 1 {
		t.Errorf("%d lanes are held beside one of the largest size", len(m.lanes)-1)
	}
	m.keep("large", held("larger", conversation.MaxBytes+1))
	if len(m.lanes) != 0 || m.held != 0 {
		t.Errorf("%d lanes with %d bytes are held", len(m.lanes), m.held)
	}
}

// Where WebSockets are off, an upgrade gets 426: clients that know it use HTTP at once.
func TestSocketsAreOff(t *testing.T) {
	s := &socketServer{}
	for _, upgrade := range []string{"websocket", ""} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/responses", nil)
		r.Header.Set("Upgrade", upgrade)
		w := httptest.NewRecorder()
		err := s.connect(w, r)
		if e := apierr.From(err); e == nil || e.Kind != apierr.KindUpgradeRequired || e.Kind.HTTPStatus() != 426 || w.Header().Get("Upgrade") != "websocket" {
			t.Errorf("upgrade %q: %v", upgrade, err)
		}
	}
}
