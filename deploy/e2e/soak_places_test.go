//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// How many shared places the hostile organization tries to hold at once: checks of events that use as much processor
// time as allowed, inbox streams, fetches of images from a silent server, notice streams that compare the lists of a
// tool server that doesn't answer, and listings of silent tool servers.
const (
	holdChecks, holdInboxes, holdImages, holdNotices, holdServers = 12, 60, 20, 10, 20
	// holdPause is the average pause between two holds of a place, holdFor the average time for which a stream is held.
	holdPause, holdFor = 50 * time.Millisecond, 2 * time.Second
	holdType           = "soak.hostile"
)

// The places, by their names in the table of results.
const (
	checkPlace, imagePlace, inboxPlace, noticePlace = "a check of an event", "a fetch of an image", "an inbox stream", "a notice stream"
)

var places = []string{checkPlace, imagePlace, inboxPlace, noticePlace}

// setUpHolders registers the event type whose pattern keeps a processor busy, and the tool servers that hang.
func (s *soak) setUpHolders(t *testing.T) {
	t.Helper()
	s.hostile.webhooks.do(t, http.MethodPut, "/v1/event-types/"+holdType, object{"schema": object{"properties": object{
		"s": object{"type": "string", "pattern": "(?:x?[ab]){330}y$"},
	}}}).want(t, http.StatusCreated)
	s.hostile.notifications = s.harness.customer(t, s.hostile.organization, "notifications", "read")
	s.harness.script(t, stack.FakeTools, rule{
		Match: object{"path": "/modern", "body": `"resources/list"`}, Action: object{"delay_ms": time.Minute.Milliseconds()},
	})
	s.harness.registerServer(t, s.hostile.organization, "files", s.harness.FakeURL(stack.FakeTools)+"/modern", 0, "resources", "prompts")
	s.harness.registerServer(t, s.organization, "files", s.harness.FakeURL(stack.FakeTools)+"/mcp", 0)
	service := s.harness.service(stack.Gateway, s.hostile.organization)
	for n := range holdServers {
		service.post(t, serversPath, object{
			"server_id": fmt.Sprint("silent-", n), "url": s.harness.FakeURL(stack.FakeTarpit) + "/mcp", "registered_by": "ada", "features": []string{"tools"},
		}).want(t, http.StatusCreated)
	}
}

// startHolders starts the callers that hold places while the hostile traffic is active. The silent tool servers hold
// their listings all the time.
func (s *soak) startHolders(t *testing.T) {
	t.Helper()
	event := fmt.Sprintf(`{"event_type": %q, "payload": {"s": %q}}`, holdType, strings.Repeat("ab", 32_000))
	silent := object{"model": soakUnsighted.model, "prompt": "What is it?", "max_tokens": hostileTokens, "image": object{"url": s.harness.FakeURL(stack.FakeTarpit) + "/a.png"}}
	for _, holder := range []struct {
		callers int
		hold    func()
	}{
		{holdChecks, func() {
			a, err := s.hostile.webhooks.try(t, http.MethodPost, "/v1/events", event)
			if err == nil && a.status < http.StatusBadRequest {
				t.Errorf("an event that breaks its schema got %d", a.status)
			}
			s.hostile.recordHold(checkPlace, err == nil && strings.Contains(string(a.body), "takes too long to be checked"))
		}},
		{holdImages, func() {
			a, err := s.hostile.ai.within(t, visionRoute, silent)
			s.hostile.recordHold(imagePlace, err == nil && strings.Contains(string(a.body), soakUnsighted.name+" (transient)"))
		}},
		{holdInboxes, func() { s.holdStream(t, inboxPlace, s.inboxStream(s.hostile.notifications, "ann")) }},
		{holdNotices, func() { s.holdStream(t, noticePlace, s.noticeStream(s.hostile.ai)) }},
	} {
		s.customers.start(holder.callers, func(int) {
			if s.hostile.holding.Load() {
				holder.hold()
			}
			s.customers.pause(holdPause/2 + rand.N(holdPause))
		})
	}
}

// openStream is a request for a stream. sign is a text that only the stream's first event has.
type openStream struct {
	client             client
	method, path, sign string
	body               object
}

func (s *soak) inboxStream(of client, user string) openStream {
	return openStream{client: of, method: http.MethodGet, path: "/product/v1/notifications/inbox/stream?user_id=" + user, sign: "event: ready"}
}

func (s *soak) noticeStream(of client) openStream {
	return openStream{
		client: of.with("Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"),
		method: http.MethodPost, path: toolsPath, sign: "notifications/subscriptions/acknowledged",
		body: object{"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen", "params": object{
			"notifications": object{"toolsListChanged": true, "resourcesListChanged": true, "promptsListChanged": true},
			"_meta": object{
				"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": object{},
			},
		}},
	}
}

// lines opens the stream and returns its lines, until the stream ends or ctx is done. If the service is killed, the
// sequence just ends.
func (o openStream) lines(ctx context.Context, t *testing.T) iter.Seq[string] {
	t.Helper()
	return func(yield func(string) bool) {
		var body any
		if o.body != nil {
			body = o.body
		}
		r, err := http.NewRequestWithContext(ctx, o.method, o.client.base+o.path, reader(t, body))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header = o.client.header.Clone()
		r.Header.Set("Content-Type", "application/json")
		response, err := httpClient.Do(r)
		if err != nil {
			return
		}
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan() && yield(lines.Text()); {
		}
	}
}

// recordHold counts an attempt to hold a place if it held the place.
func (h *soakHostile) recordHold(place string, held bool) {
	if !held {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[place]++
}

// holdStream holds a stream for about holdFor, so that many callers don't open theirs at the same moment.
func (s *soak) holdStream(t *testing.T, place string, o openStream) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), holdFor/2+rand.N(holdFor))
	defer cancel()
	for line := range o.lines(ctx, t) {
		s.hostile.recordHold(place, strings.Contains(line, o.sign))
	}
}

// openInbox opens the stream of a user's inbox, and closes it after the first event.
func (s *soak) openInbox(t *testing.T, random *rand.Rand) {
	t.Helper()
	s.open(t, inboxKind, s.inboxStream(s.notifications, soakUser(random.IntN(soakUsers))))
}

// openNotices opens a stream of tool servers' notices, and closes it after the first event.
func (s *soak) openNotices(t *testing.T, _ *rand.Rand) {
	t.Helper()
	s.open(t, noticeKind, s.noticeStream(s.ai))
}

// open opens a stream and records how long its first event took.
func (s *soak) open(t *testing.T, kind string, o openStream) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soakTimeout)
	defer cancel()
	phase, begun := s.latencies.currentPhase(), time.Now()
	for line := range o.lines(ctx, t) {
		if strings.Contains(line, o.sign) {
			s.latencies.record(kind, phase, time.Since(begun))
			return
		}
	}
}
