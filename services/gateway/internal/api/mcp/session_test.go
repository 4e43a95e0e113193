package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/platform/apierr"
)

// sessions is a Sessions whose only session is "s1".
type sessions struct {
	begun []session.Owner
	ended bool
	err   error
	full  error // of SetLevel

	expires time.Time
	level   int
}

func (s *sessions) SetLevel(_ context.Context, _ *session.Session, level int) error {
	if s.full == nil {
		s.level = level
	}
	return s.full
}

func (s *sessions) Begin(of session.Owner, _ string, capabilities json.RawMessage) (string, error) {
	s.begun = append(s.begun, of)
	if string(capabilities) != `{"roots":{}}` {
		return "", errors.New("without capabilities")
	}
	return "s1", nil
}

func (s *sessions) Open(_ context.Context, of session.Owner, id string) (*session.Session, error) {
	if id != "s1" || s.ended || of != (session.Owner{Organization: "acme", Key: "k0", User: "ann"}) {
		return nil, session.ErrNotFound
	}
	return &session.Session{Version: "2025-06-18", Expires: s.expires, Level: s.level}, s.err
}

func (s *sessions) End(ctx context.Context, of session.Owner, id string) error {
	_, err := s.Open(ctx, of, id)
	s.ended = s.ended || err == nil
	return err
}

func TestSessions(t *testing.T) {
	server, _, h := open(t)
	s := &sessions{}
	do := func(method, path string, headers ...string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		http.DefaultClient.CloseIdleConnections()
		_ = response.Body.Close()
		return response.StatusCode
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}}}}`
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	_, _, header := post(t, server.URL+"/mcp", initialize)
	if header.Get("Mcp-Session-Id") != "" || do("DELETE", "/mcp", "Mcp-Session-Id", "s1") != 405 {
		t.Error("a session of a gateway that has none")
	}
	if status, _, _ := post(t, server.URL+"/mcp", ping, "Mcp-Session-Id", "any"); status != 200 {
		t.Errorf("an id without sessions: %d", status)
	}
	h.Sessions = s
	h.Asker = func(context.Context) (toolcall.Asker, error) {
		a := toolcall.Asker{RequestID: "r1", Organization: "acme", Key: "k1", User: "ann"}
		a.KeyTerms.Key = "k0"
		return a, nil
	}
	if _, _, header = post(t, server.URL+"/mcp", initialize, "Mcp-Session-Id", "old"); header.Get("Mcp-Session-Id") != "s1" {
		t.Errorf("%v", header)
	}
	if _, body, header := post(t, server.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`); header.Get("Mcp-Session-Id") != "" || !gjson.Get(body, "result").Exists() {
		t.Errorf("without a session: %s", body)
	}
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
		code    int64
	}{
		"the session":         {ping, []string{"Mcp-Session-Id", "s1"}, 200, 0},
		"its version":         {ping, []string{"Mcp-Session-Id", "s1", "Mcp-Protocol-Version", "2025-06-18"}, 200, 0},
		"another version":     {ping, []string{"Mcp-Session-Id", "s1", "Mcp-Protocol-Version", "2025-11-25"}, 400, -32600},
		"no session":          {ping, nil, 200, 0},
		"an unknown session":  {ping, []string{"Mcp-Session-Id", "s2"}, 404, -31404},
		"of a notification":   {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, []string{"Mcp-Session-Id", "s2"}, 404, -31404},
		"of a modern request": {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`, modern("tools/list", "Mcp-Session-Id", "s2"), 200, 0},
		"on a server's path":  {ping, []string{"Mcp-Session-Id", "s1"}, 404, -31404},
	} {
		path := "/mcp"
		if name == "on a server's path" {
			path += "/files"
		}
		status, body, _ := post(t, server.URL+path, c.body, c.headers...)
		if status != c.status || gjson.Get(body, "error.code").Int() != c.code {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	s.err = apierr.Unavailable("away", nil)
	if status, _, _ := post(t, server.URL+"/mcp", ping, "Mcp-Session-Id", "s1"); status != 503 {
		t.Errorf("while it can't be known whether it was ended: %d", status)
	}
	s.err = nil
	for _, step := range []struct {
		id     string
		status int
	}{{"", 405}, {"s2", 404}, {"s1", 204}, {"s1", 404}} {
		if status := do("DELETE", "/mcp", "Mcp-Session-Id", step.id); status != step.status {
			t.Errorf("the end of %q: %d, want %d", step.id, status, step.status)
		}
	}
	if status, _, _ := post(t, server.URL+"/mcp", ping, "Mcp-Session-Id", "s1"); status != 404 {
		t.Errorf("an ended session: %d", status)
	}
	if status := do("DELETE", "/mcp", "Mcp-Session-Id", "s1", "Origin", "https://evil.example"); status != 403 {
		t.Errorf("of a page: %d", status)
	}
}
