package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// house answers as the running stack does, by the contract alone.
type house struct {
	t   *testing.T
	env Env

	// What a test spoils.
	stream    string // instead of the good one
	signature string
	swallow   bool // counts nothing
	status    string
	slack     string // why Slack failed

	mu       sync.Mutex
	polls    int
	looks    int
	counts   map[string]int
	arrivals []map[string]any
	inbox    []map[string]any
}

const goodStream = `data: {"content":"A board "}

data: {"content":"that connects."}

data: {"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":5,"provider_used":"sandbox","cost_cents":0.01,"estimated":false}}

data: [DONE]

`

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, counts: map[string]int{}, stream: goodStream, status: "delivered"}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /product/v1/ai/chat", h.chat)
	mux.HandleFunc("POST /product/v1/webhooks/deliveries", h.enqueue)
	mux.HandleFunc("GET /v1/deliveries/d-1", h.delivery)
	mux.HandleFunc("GET /v1/deliveries/d-1/attempts", h.attempts)
	mux.HandleFunc("GET /_arrivals", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{"arrivals": h.arrivals}) })
	mux.HandleFunc("POST /product/v1/notifications/send", h.send)
	mux.HandleFunc("GET /v1/notifications", h.list)
	mux.HandleFunc("GET /v1/notifications/sends/n-1", h.sent)
	mux.HandleFunc("GET /admin/v1/usage", h.usage)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	h.env = filled()
	for _, u := range []*string{&h.env.EdgeURL, &h.env.GatewayURL, &h.env.WebhookEgressURL, &h.env.NotifyURL} {
		*u = server.URL
	}
	return h
}

// state is a folder as `make run` leaves it.
func (h *house) state() string {
	h.t.Helper()
	dir := h.t.TempDir()
	if err := h.env.Write(EnvFile(dir)); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(ReceiverFile(dir), []byte(h.env.EdgeURL+"\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return dir
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// admit checks the credential and counts the call.
func (h *house) admit(w http.ResponseWriter, r *http.Request, credential, metric string) bool {
	if r.Header.Get("Authorization") != "Bearer "+credential {
		reply(w, 401, map[string]string{"error": "unauthenticated"})
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if metric != "" && !h.swallow {
		h.counts[metric]++
	}
	return true
}

// face checks a call of the capability face.
func (h *house) face(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("X-Organization-Id") != h.env.OrganizationID {
		reply(w, 400, map[string]string{"error": "no organization"})
		return false
	}
	return h.admit(w, r, h.env.ServiceToken, "")
}

func (h *house) chat(w http.ResponseWriter, r *http.Request) {
	if !h.admit(w, r, h.env.AIKey, metricChat) {
		return
	}
	var body struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Model != "sandbox" {
		reply(w, 400, map[string]string{"reason": "bad request"})
		return
	}
	if body.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, h.stream)
		return
	}
	reply(w, 200, map[string]any{
		"content": "A board.", "tool_calls": nil,
		"usage": map[string]any{"prompt_tokens": 9, "completion_tokens": 3, "provider_used": "sandbox", "cost_cents": 0.01},
	})
}

func (h *house) enqueue(w http.ResponseWriter, r *http.Request) {
	if !h.admit(w, r, h.env.WebhooksKey, metricDelivery) {
		return
	}
	var body struct {
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		h.t.Error(err)
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	if h.signature == "" {
		h.signature = digest(h.env.WebhookSecret, timestamp, string(body.Payload))
	}
	h.arrivals = append(h.arrivals, map[string]any{
		"method": "POST", "path": "/hooks/demo", "body": string(body.Payload),
		"headers": http.Header{"X-Webhook-Id": {"d-1"}, "X-Webhook-Timestamp": {timestamp}, "X-Webhook-Signature": {h.signature}},
	})
	reply(w, 202, map[string]any{"delivery_id": "d-1", "status": "queued"})
}

func (h *house) delivery(w http.ResponseWriter, r *http.Request) {
	if !h.face(w, r) {
		return
	}
	h.polls++
	status := "queued"
	if h.polls > 2 {
		status = h.status
	}
	reply(w, 200, map[string]any{"delivery_id": "d-1", "status": status, "last_error": nil})
}

func (h *house) attempts(w http.ResponseWriter, r *http.Request) {
	if h.face(w, r) {
		reply(w, 200, map[string]any{"attempts": []map[string]any{
			{"number": 1, "outcome": "retry", "response_code": nil, "error": "timeout", "total_ms": 1000.5},
			{"number": 2, "outcome": "delivered", "response_code": 200, "error": nil, "total_ms": 3.25},
		}})
	}
}

func (h *house) send(w http.ResponseWriter, r *http.Request) {
	if !h.admit(w, r, h.env.NotificationsKey, metricNotification) {
		return
	}
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		h.t.Error(err)
	}
	id := fmt.Sprintf("n-%d", len(h.inbox)+1)
	h.inbox = append(h.inbox, map[string]any{
		"id": "i-" + id, "notification_id": id, "subject": body["subject"], "message": body["message"], "read": false, "created_at": time.Now(),
	})
	reply(w, 202, map[string]any{"notification_id": id, "accepted_channels": body["channels"]})
}

func (h *house) list(w http.ResponseWriter, r *http.Request) {
	if h.face(w, r) {
		reply(w, 200, map[string]any{"notifications": h.inbox, "unread_count": len(h.inbox), "next_cursor": ""})
	}
}

// sent tells of the channels: under way at first.
func (h *house) sent(w http.ResponseWriter, r *http.Request) {
	if !h.face(w, r) {
		return
	}
	h.looks++
	status, slack, reason := "pending", "sending", any(nil)
	if h.looks > 1 {
		status, slack = "delivered", "delivered"
	}
	if h.slack != "" {
		slack, reason = "failed", h.slack
	}
	reply(w, 200, map[string]any{"notification_id": "n-1", "status": status, "channels": []map[string]any{
		{"channel": "in_app", "status": "delivered", "attempts": 1, "last_error": nil},
		{"channel": "slack", "status": slack, "attempts": 2, "last_error": reason},
		{"channel": "email", "status": "delivered", "attempts": 1, "last_error": nil},
		{"channel": "webhook", "status": "delivered", "attempts": 1, "last_error": nil},
	}})
}

// usage answers a metric per page.
func (h *house) usage(w http.ResponseWriter, r *http.Request) {
	if !h.admit(w, r, h.env.OperatorToken, "") {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := []string{metricChat, metricDelivery, metricNotification}
	page, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	next := ""
	if page+1 < len(all) {
		next = strconv.Itoa(page + 1)
	}
	reply(w, 200, map[string]any{
		"usage":       []map[string]any{{"metric": all[page], "key_id": "k", "count": 40 + h.counts[all[page]]}},
		"next_cursor": next,
	})
}

func makeFolder(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// transcript runs the demo against the house.
func (h *house) transcript() (string, error) {
	h.t.Helper()
	var out strings.Builder
	err := Run(h.t.Context(), &Screen{out: &out}, h.state())
	return out.String(), err
}
