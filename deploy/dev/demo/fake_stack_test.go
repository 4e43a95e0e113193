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

// fakeStack is a server that answers as the running stack does, as far as the contract says.
type fakeStack struct {
	t   *testing.T
	env Env

	// Faults that a test sets.
	stream     string // the streamed answer
	signature  string
	dropCounts bool // no call is counted
	status     string
	slack      string // Slack's last error; empty when Slack succeeds
	payments   fakePayments

	mu            sync.Mutex
	deliveryPolls int
	sendPolls     int
	counts        map[string]int
	arrivals      []map[string]any
	inbox         []map[string]any
}

const validStream = `data: {"content":"A board "}

data: {"content":"that connects."}

data: {"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":5,"provider_used":"sandbox","cost_cents":0.01,"estimated":false}}

data: [DONE]

`

func newFakeStack(t *testing.T) *fakeStack {
	t.Helper()
	f := &fakeStack{t: t, counts: map[string]int{}, stream: validStream, status: "delivered"}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /product/v1/ai/chat", f.chat)
	mux.HandleFunc("POST /product/v1/webhooks/deliveries", f.enqueue)
	mux.HandleFunc("GET /v1/deliveries/d-1", f.delivery)
	mux.HandleFunc("GET /v1/deliveries/d-1/attempts", f.attempts)
	mux.HandleFunc("GET /_arrivals", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{"arrivals": f.arrivals}) })
	mux.HandleFunc("POST /product/v1/notifications/send", f.send)
	mux.HandleFunc("GET /v1/notifications", f.list)
	mux.HandleFunc("GET /v1/notifications/sends/n-1", f.sent)
	mux.HandleFunc("GET /admin/v1/usage", f.usage)
	f.serveTools(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	f.env = filled()
	for _, u := range []*string{&f.env.EdgeURL, &f.env.GatewayURL, &f.env.WebhookEgressURL, &f.env.NotifyURL, &f.env.ReceiverURL} {
		*u = server.URL
	}
	return f
}

// state returns a state folder as `make run` writes it.
func (f *fakeStack) state() string {
	f.t.Helper()
	dir := f.t.TempDir()
	if err := f.env.Write(EnvFile(dir)); err != nil {
		f.t.Fatal(err)
	}
	return dir
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// authenticate checks the credential and counts the call.
func (f *fakeStack) authenticate(w http.ResponseWriter, r *http.Request, credential, metric string) bool {
	if r.Header.Get("Authorization") != "Bearer "+credential {
		reply(w, 401, map[string]string{"error": "unauthenticated"})
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if metric != "" && !f.dropCounts {
		f.counts[metric]++
	}
	return true
}

// face checks the organization and the token of a call of the capability face.
func (f *fakeStack) face(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("X-Organization-Id") != f.env.OrganizationID {
		reply(w, 400, map[string]string{"error": "no organization"})
		return false
	}
	return f.authenticate(w, r, f.env.ServiceToken, "")
}

func (f *fakeStack) chat(w http.ResponseWriter, r *http.Request) {
	if !f.authenticate(w, r, f.env.AIKey, metricChat) {
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
		_, _ = io.WriteString(w, f.stream)
		return
	}
	reply(w, 200, map[string]any{
		"content": "A board.", "tool_calls": nil,
		"usage": map[string]any{"prompt_tokens": 9, "completion_tokens": 3, "provider_used": "sandbox", "cost_cents": 0.01},
	})
}

func (f *fakeStack) enqueue(w http.ResponseWriter, r *http.Request) {
	if !f.authenticate(w, r, f.env.WebhooksKey, metricDelivery) {
		return
	}
	var body struct {
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		f.t.Error(err)
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	if f.signature == "" {
		f.signature = digest(f.env.WebhookSecret, timestamp, string(body.Payload))
	}
	f.arrivals = append(f.arrivals, map[string]any{
		"method": "POST", "path": "/hooks/demo", "body": string(body.Payload),
		"headers": http.Header{"X-Webhook-Id": {"d-1"}, "X-Webhook-Timestamp": {timestamp}, "X-Webhook-Signature": {f.signature}},
	})
	reply(w, 202, map[string]any{"delivery_id": "d-1", "status": "queued"})
}

func (f *fakeStack) delivery(w http.ResponseWriter, r *http.Request) {
	if !f.face(w, r) {
		return
	}
	f.deliveryPolls++
	status := "queued"
	if f.deliveryPolls > 2 {
		status = f.status
	}
	reply(w, 200, map[string]any{"delivery_id": "d-1", "status": status, "last_error": nil})
}

func (f *fakeStack) attempts(w http.ResponseWriter, r *http.Request) {
	if f.face(w, r) {
		reply(w, 200, map[string]any{"attempts": []map[string]any{
			{"number": 1, "outcome": "retry", "response_code": nil, "error": "timeout", "total_ms": 1000.5},
			{"number": 2, "outcome": "delivered", "response_code": 200, "error": nil, "total_ms": 3.25},
		}})
	}
}

func (f *fakeStack) send(w http.ResponseWriter, r *http.Request) {
	if !f.authenticate(w, r, f.env.NotificationsKey, metricNotification) {
		return
	}
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	id := fmt.Sprintf("n-%d", len(f.inbox)+1)
	f.inbox = append(f.inbox, map[string]any{
		"id": "i-" + id, "notification_id": id, "subject": body["subject"], "message": body["message"], "read": false, "created_at": time.Now(),
	})
	reply(w, 202, map[string]any{"notification_id": id, "accepted_channels": body["channels"]})
}

func (f *fakeStack) list(w http.ResponseWriter, r *http.Request) {
	if f.face(w, r) {
		f.mu.Lock()
		defer f.mu.Unlock()
		reply(w, 200, map[string]any{"notifications": f.inbox, "unread_count": len(f.inbox), "next_cursor": ""})
	}
}

// sent answers with the state of each channel; Slack is pending at first.
func (f *fakeStack) sent(w http.ResponseWriter, r *http.Request) {
	if !f.face(w, r) {
		return
	}
	f.sendPolls++
	status, slack, reason := "pending", "sending", any(nil)
	if f.sendPolls > 1 {
		status, slack = "delivered", "delivered"
	}
	if f.slack != "" {
		slack, reason = "failed", f.slack
	}
	reply(w, 200, map[string]any{"notification_id": "n-1", "status": status, "channels": []map[string]any{
		{"channel": "in_app", "status": "delivered", "attempts": 1, "last_error": nil},
		{"channel": "slack", "status": slack, "attempts": 2, "last_error": reason},
		{"channel": "email", "status": "delivered", "attempts": 1, "last_error": nil},
		{"channel": "webhook", "status": "delivered", "attempts": 1, "last_error": nil},
	}})
}

// usage answers with one metric on each page.
func (f *fakeStack) usage(w http.ResponseWriter, r *http.Request) {
	if !f.authenticate(w, r, f.env.OperatorToken, "") {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all := []string{metricChat, metricDelivery, metricNotification, metricTool}
	page, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	next := ""
	if page+1 < len(all) {
		next = strconv.Itoa(page + 1)
	}
	reply(w, 200, map[string]any{
		"usage":       []map[string]any{{"metric": all[page], "key_id": "k", "count": 40 + f.counts[all[page]]}},
		"next_cursor": next,
	})
}

func makeFolder(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// transcript runs the demo against the fake stack and returns its output.
func (f *fakeStack) transcript() (string, error) {
	f.t.Helper()
	var out strings.Builder
	err := Run(f.t.Context(), &Screen{out: &out}, f.state())
	return out.String(), err
}
