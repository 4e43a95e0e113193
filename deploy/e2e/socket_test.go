//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/openai/openai-go/v3"
	openairesponses "github.com/openai/openai-go/v3/responses"

	"switchyard.dev/deploy/dev/stack"
)

const (
	socketRoute = "/v1/responses"
	edgeSocket  = "/product/v1/ai/openai/v1/responses"
)

// wire is a WebSocket of a customer or of a first-party service.
type wire struct{ *websocket.Conn }

// connect opens a WebSocket at a path, or returns the status with which it was refused.
func (c client) connect(t *testing.T, path string) (conn *wire, status int) {
	t.Helper()
	opened, response, err := websocket.Dial(t.Context(), c.base+path, &websocket.DialOptions{HTTPClient: httpClient, HTTPHeader: c.header})
	if response == nil {
		t.Fatal(err)
	}
	if err != nil {
		_ = response.Body.Close()
		return nil, response.StatusCode
	}
	opened.SetReadLimit(-1)
	t.Cleanup(func() { _ = opened.CloseNow() })
	return &wire{opened}, response.StatusCode
}

func (c client) connected(t *testing.T, path string) *wire {
	t.Helper()
	conn, status := c.connect(t, path)
	if conn == nil {
		t.Fatalf("%s: refused with %d", path, status)
	}
	return conn
}

// frame is what the tests read of an event.
type frame struct {
	Type, Code, Message string
	Stream              string `json:"stream_id"`
	Status              int
	Headers             map[string]string
	Response            struct {
		ID    string
		Usage struct {
			Total int `json:"total_tokens"`
		}
		Output []struct {
			Content []struct{ Text string }
		}
	}
}

func (f frame) text() (text string) {
	for _, item := range f.Response.Output {
		for _, part := range item.Content {
			text += part.Text
		}
	}
	return text
}

// encoded returns a message as text.
func encoded(t *testing.T, fields object) []byte {
	t.Helper()
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (w *wire) send(t *testing.T, fields object) {
	t.Helper()
	if err := w.Write(t.Context(), websocket.MessageText, encoded(t, fields)); err != nil {
		t.Fatal(err)
	}
}

// await returns the next event of one of some types.
func (w *wire) await(t *testing.T, types ...string) frame {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	for {
		kind, text, err := w.Read(ctx)
		if err != nil {
			t.Fatalf("want %v: %v", types, err)
		}
		var f frame
		if !decoded(answer{body: text}, &f) || kind != websocket.MessageText {
			t.Fatalf("%v %s", kind, shorten(text))
		}
		if slices.Contains(types, f.Type) {
			return f
		}
		if f.Type == "error" {
			t.Fatalf("%s, want %v", shorten(text), types)
		}
	}
}

// asks requests a response, and returns its last event.
func (w *wire) asks(t *testing.T, fields object) frame {
	t.Helper()
	w.send(t, create(fields))
	return w.await(t, "response.completed")
}

func create(fields object) object { return object{"type": "response.create"}.with(fields) }

// closedWith reads until the connection ends.
func (w *wire) closedWith(t *testing.T) websocket.StatusCode {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	for {
		if _, _, err := w.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// Several requests on one connection, at the gateway and through the edge: a warm-up, turns that are not stored, lanes,
// a refusal; each of them is counted and billed like one over HTTP.
func TestSocketConversation(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, face := range []string{"gateway", "edge"} {
		t.Run(face, func(t *testing.T) {
			organization := unique("org")
			c, path := h.service(stack.Gateway, organization), socketRoute
			if face == "edge" {
				c, path = h.customer(t, organization, "ai", "read"), edgeSocket
			}
			w := c.connected(t, path)
			unstored := object{"model": "sandbox", "store": false}
			warm := w.asks(t, unstored.with(object{"generate": false, "input": "be kind"}))
			if warm.Response.ID == "" || warm.Response.Usage.Total != 0 {
				t.Errorf("a warm-up: %+v", warm)
			}
			last := warm.Response.ID
			for _, turn := range []string{"one", "two"} {
				done := w.asks(t, unstored.with(object{"previous_response_id": last, "input": turn}))
				if !strings.HasSuffix(done.text(), turn) {
					t.Errorf("%q, want %s", done.text(), turn)
				}
				last = done.Response.ID
			}
			w.send(t, create(unstored.with(object{"previous_response_id": warm.Response.ID, "input": "x", "stream_id": "other"})))
			if e := w.await(t, "error"); e.Status != http.StatusBadRequest || e.Code != "previous_response_not_found" || e.Stream != "other" {
				t.Errorf("from an old response: %+v", e)
			}
			stored := w.asks(t, object{"model": "sandbox", "previous_response_id": last, "input": "three", "stream_id": "other"})
			next := c.connected(t, path).asks(t, object{"model": "sandbox", "previous_response_id": stored.Response.ID, "input": "four"})
			if !strings.HasSuffix(next.text(), "four") || stored.Stream != "other" {
				t.Errorf("on another connection: %+v after %+v", next, stored)
			}
			h.awaitRecorded(t, organization, "", "completed", 4)
			if face == "edge" {
				h.awaitCount(t, organization, "llm_requests", 4)
			}
		})
	}
}

// The OpenAI SDK's own client of the WebSocket mode.
func TestSocketSDK(t *testing.T) {
	eachEndpoint(t, sdkEndpoint.openAIClient, []string{"sandbox"}, func(t *testing.T, _ *harness, client openai.Client, model string) {
		t.Helper()
		conn, err := client.Responses.Connect(t.Context(), openairesponses.ResponseConnectionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		previous := ""
		for _, turn := range []string{"one", "two"} {
			body := object{"model": model, "input": turn, "store": false}
			if previous != "" {
				body["previous_response_id"] = previous
			}
			if err := conn.SendRaw(t.Context(), encoded(t, create(body))); err != nil {
				t.Fatal(err)
			}
			for previous = ""; previous == ""; {
				event, err := conn.Recv(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if event.Type == "response.completed" {
					done := event.AsResponseCompleted().Response
					previous = done.ID
					if !strings.HasSuffix(done.OutputText(), turn) {
						t.Errorf("%s", event.RawJSON())
					}
				}
			}
		}
	})
}

// The edge limits each request of a connection, in band, and passes the others on.
func TestSocketLimits(t *testing.T) {
	t.Parallel()
	h := use(t)
	key := h.keyByOperator(t, http.MethodPost, "/admin/v1/keys", object{
		"organization_id": unique("org"), "product": "ai", "permissions": []string{"read"}, "rate_limit": object{"requests": 3, "window_seconds": 3600},
	}, http.StatusCreated)
	w := h.anonymous(stack.Edge).bearer(key.Key).connected(t, edgeSocket) // The first call.
	for range 2 {
		w.asks(t, object{"model": "sandbox", "input": "x"})
	}
	w.send(t, create(object{"model": "sandbox", "input": "x"}))
	if e := w.await(t, "error"); e.Status != http.StatusTooManyRequests || e.Headers["retry-after"] == "" || !strings.Contains(e.Message, "try again in") {
		t.Errorf("beyond the limit: %+v", e)
	}
	w.send(t, object{"type": "response.steer", "previous_response_id": "resp_1", "input": "x"})
	w.await(t, "response.steer.failed")
}

// Suspension and revocation close connections within a second, whether something is in flight or not.
func TestSocketsAreClosed(t *testing.T) {
	h := pairOfGateways(t)
	h.stallStreams(t)
	for name, end := range map[string]func(organization string, key productKey){
		"suspended": func(organization string, _ productKey) {
			h.operator(stack.Gateway).post(t, "/v1/admin/orgs/"+organization+"/suspend", object{"reason": "abuse"}).want(t, http.StatusOK)
		},
		"revoked": func(_ string, key productKey) {
			h.operator(stack.Edge).do(t, http.MethodDelete, "/admin/v1/keys/"+key.ID, nil).want(t, http.StatusNoContent)
		},
	} {
		t.Run(name, func(t *testing.T) {
			organization := unique("org")
			key := h.key(t, organization, "ai", "read")
			c := h.anonymous(stack.Edge).bearer(key.Key)
			idle, busy := c.connected(t, edgeSocket), c.connected(t, edgeSocket)
			busy.send(t, create(object{"model": stalled.model, "input": "hello"}))
			busy.await(t, "response.output_text.delta")
			end(organization, key)
			ended := time.Now()
			for what, w := range map[string]*wire{"idle": idle, "busy": busy} {
				if code := w.closedWith(t); code != websocket.StatusPolicyViolation || time.Since(ended) > time.Second {
					t.Errorf("%s: closed with %d after %v", what, code, time.Since(ended))
				}
			}
			if _, status := c.connect(t, edgeSocket); status != http.StatusUnauthorized && status != http.StatusForbidden {
				t.Errorf("a new connection: %d", status)
			}
		})
	}
}

// A service that stops lets responses finish and closes with 1012, so that clients connect again.
func TestSocketsDrain(t *testing.T) {
	t.Parallel()
	h := pairOfEdges(t)
	for _, member := range []stack.Service{secondEdge, stack.Gateway} {
		t.Run(string(member), func(t *testing.T) {
			w := h.customer(t, unique("org"), "ai", "read")
			w.base = h.URL(string(secondEdge))
			conn := w.connected(t, edgeSocket)
			conn.asks(t, object{"model": "sandbox", "input": "x"})
			stopped := make(chan error, 1)
			go func() { stopped <- h.Terminate(t.Context(), string(member)) }()
			if code := conn.closedWith(t); code != websocket.StatusServiceRestart {
				t.Errorf("closed with %d", code)
			}
			if err := errors.Join(<-stopped, h.Restart(t.Context(), string(member))); err != nil {
				t.Error(err)
			}
			w.connected(t, edgeSocket).asks(t, object{"model": "sandbox", "input": "again"})
		})
	}
}

// Without a WebSocket, or where they are off, clients are told so by a status that they understand.
func TestSocketRefusals(t *testing.T) {
	t.Parallel()
	h := use(t)
	gateway := h.service(stack.Gateway, unique("org"))
	if a := gateway.get(t, socketRoute); a.status != http.StatusUpgradeRequired || !strings.Contains(string(a.body), "upgrade_required") {
		t.Errorf("without an upgrade: %d %s", a.status, a.body)
	}
	for what, c := range map[string]client{
		"another token":   gateway.bearer("another"),
		"another site":    gateway.with("Origin", "https://evil.example"),
		"an unknown key":  h.anonymous(stack.Edge).bearer(unissuedKey()),
		"another product": h.customer(t, unique("org"), "webhooks", "write"),
	} {
		path := socketRoute
		if c.base != gateway.base {
			path = edgeSocket
		}
		if _, status := c.connect(t, path); status != http.StatusUnauthorized && status != http.StatusForbidden {
			t.Errorf("%s: %d", what, status)
		}
	}
	w := h.customer(t, unique("org"), "ai", "read").connected(t, edgeSocket)
	if err := w.Write(t.Context(), websocket.MessageBinary, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if code := w.closedWith(t); code != websocket.StatusUnsupportedData {
		t.Errorf("binary: closed with %d", code)
	}
}
