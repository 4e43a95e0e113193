package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// fakePayments is what the fake stack knows of the tool server, and the faults that a test sets.
type fakePayments struct {
	known    bool // the server is registered before the demo, with reviewed definitions
	unheld   bool // no rule holds the call
	refused  bool // the call is refused although it was approved
	stale    bool // the call that was shown has changed
	twice    bool // the call was made twice
	unbilled bool // the ledger has no row

	registered, trusted, reviewed, removed bool
	groups                                 []json.RawMessage
	payee                                  string
	decided                                chan struct{}
}

const decisionToken, decisionPath = "token-of-ann", "/product/v1/ai/approvals/ref-1/decision"

// serveTools serves a tool server, its approvals and the page of decisions.
func (f *fakeStack) serveTools(mux *http.ServeMux) {
	p := &f.payments
	p.decided = make(chan struct{})
	mux.HandleFunc("POST /v1/mcp/servers", f.register)
	mux.HandleFunc("DELETE /v1/mcp/servers/payments", func(w http.ResponseWriter, r *http.Request) {
		if f.face(w, r) {
			p.removed = true
			w.WriteHeader(http.StatusNoContent)
		}
	})
	mux.HandleFunc("POST /v1/mcp/trust", func(w http.ResponseWriter, r *http.Request) {
		if f.face(w, r) {
			p.trusted = true
			reply(w, http.StatusCreated, map[string]string{"server_id": paymentServer})
		}
	})
	mux.HandleFunc("GET /v1/mcp/servers/payments", func(w http.ResponseWriter, r *http.Request) {
		if f.face(w, r) {
			pending := 12
			if p.known || p.reviewed {
				pending = 0
			}
			reply(w, http.StatusOK, map[string]any{"listing_digest": "d1", "tools": 12, "tools_pending": pending})
		}
	})
	mux.HandleFunc("POST /v1/mcp/servers/payments/review", func(w http.ResponseWriter, r *http.Request) {
		if f.face(w, r) {
			p.reviewed = true
			reply(w, http.StatusOK, map[string]string{})
		}
	})
	mux.HandleFunc("GET /admin/v1/approvers/{organization}", f.approvers)
	mux.HandleFunc("PUT /admin/v1/approvers/{organization}", f.approvers)
	mux.HandleFunc("POST /product/v1/mcp", f.pay)
	mux.HandleFunc("POST /admin/v1/tokens", f.mint)
	mux.HandleFunc("GET "+decisionPath, func(w http.ResponseWriter, r *http.Request) {
		if f.authenticate(w, r, decisionToken, "") {
			reply(w, http.StatusOK, map[string]string{"display_version": "v1"})
		}
	})
	mux.HandleFunc("POST "+decisionPath, f.decide)
	mux.HandleFunc("GET /v1/approvals", f.approvals)
	mux.HandleFunc("GET /v1/usage", f.ledger)
}

func (f *fakeStack) register(w http.ResponseWriter, r *http.Request) {
	if !f.face(w, r) {
		return
	}
	if f.payments.known {
		reply(w, http.StatusConflict, map[string]string{"reason": "already registered"})
		return
	}
	f.payments.registered = true
	reply(w, http.StatusCreated, map[string]string{"server_id": paymentServer})
}

func (f *fakeStack) approvers(w http.ResponseWriter, r *http.Request) {
	if !f.authenticate(w, r, f.env.OperatorToken, "") {
		return
	}
	if r.Method == http.MethodPut {
		var body struct {
			Groups []json.RawMessage `json:"groups"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			f.t.Error(err)
		}
		f.payments.groups = body.Groups
	}
	reply(w, http.StatusOK, map[string]any{"groups": f.payments.groups})
}

// pay holds a call until the page's form has come, and answers as a stream, as the gateway does with what takes long.
func (f *fakeStack) pay(w http.ResponseWriter, r *http.Request) {
	if !f.authenticate(w, r, f.env.AIKey, metricTool) {
		return
	}
	var body struct {
		Params struct {
			Name      string
			Arguments struct {
				To     string
				Amount int
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Params.Name != "payments__pay" || body.Params.Arguments.Amount != largeAmount {
		f.t.Errorf("the call %+v: %v", body, err)
	}
	f.mu.Lock()
	f.payments.payee = body.Params.Arguments.To
	if !f.payments.unheld {
		f.inbox = append(f.inbox, map[string]any{
			"notification_id": "approval", "subject": "Approval needed: payments/pay", "url": f.env.EdgeURL + "/decisions/of/ref-1/",
		})
	}
	f.mu.Unlock()
	if !f.payments.unheld {
		select {
		case <-f.payments.decided:
		case <-r.Context().Done():
			return
		}
	}
	answer := fmt.Sprintf(`"result":{"content":[{"type":"text","text":"paid %d to %s"}]}`, largeAmount, f.payments.payee)
	if f.payments.refused {
		answer = `"error":{"code":-31403,"message":"the definition changed"}`
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, ": wait\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,"+answer+"}\n\n")
}

// mint returns a token for the user who decides.
func (f *fakeStack) mint(w http.ResponseWriter, r *http.Request) {
	if !f.authenticate(w, r, f.env.OperatorToken, "") {
		return
	}
	var body struct {
		Organization string `json:"organization_id"`
		User         string `json:"user_id"`
		Scopes       []string
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.User != reader || body.Organization != f.env.OrganizationID ||
		!slices.Equal(body.Scopes, []string{"ai:decisions:decide"}) {
		f.t.Errorf("a token is asked for with %+v: %v", body, err)
	}
	reply(w, http.StatusCreated, map[string]string{"token": decisionToken})
}

func (f *fakeStack) decide(w http.ResponseWriter, r *http.Request) {
	if !f.authenticate(w, r, decisionToken, "") {
		return
	}
	var body struct {
		Decision string
		Version  string `json:"display_version"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Decision != "approve" || body.Version != "v1" {
		f.t.Errorf("decided with %+v: %v", body, err)
	}
	if f.payments.stale {
		reply(w, http.StatusConflict, map[string]string{"error": "display_changed"})
		return
	}
	close(f.payments.decided)
	reply(w, http.StatusOK, map[string]string{"status": "approved", "decided_by": reader, "decided_via": "user_token"})
}

func (f *fakeStack) approvals(w http.ResponseWriter, r *http.Request) {
	if !f.face(w, r) {
		return
	}
	attempts := 1
	if f.payments.twice {
		attempts = 2
	}
	reply(w, http.StatusOK, map[string]any{"approvals": []map[string]any{
		{"arguments": map[string]any{"cents": 1}, "decided_by": "ada", "call": nil}, // one without a call
		{"arguments": map[string]any{"to": f.payments.payee}, "decided_by": "ann", "call": map[string]any{"state": "done", "attempts": attempts, "rule": "large payments"}},
	}})
}

func (f *fakeStack) ledger(w http.ResponseWriter, r *http.Request) {
	if !f.face(w, r) {
		return
	}
	rows := []map[string]any{}
	if r.URL.Query().Get("provider") == "mcp/payments" && !f.payments.unbilled {
		rows = append(rows, map[string]any{"operation": "tool", "provider": "mcp/payments", "model": "pay", "outcome": "completed", "cost_cents": 0.5})
	}
	reply(w, http.StatusOK, map[string]any{"records": rows})
}
