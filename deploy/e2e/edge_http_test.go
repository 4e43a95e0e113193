//go:build e2e

package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// dialEdge opens a connection to the edge and writes a text to it.
func (h *harness) dialEdge(t *testing.T, text string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.URL(string(stack.Edge)), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// readToEnd reads a connection to its end and returns what was read. The test fails when the connection is still open
// after the time.
func readToEnd(t *testing.T, conn net.Conn, within time.Duration) string {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(within))
	text, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is still open after %s", within)
	}
	return string(text)
}

// A customer that sends slowly keeps a connection for no longer than the settings allow, and other customers are served
// meanwhile.
func TestEdgeSlowCustomers(t *testing.T) {
	t.Parallel()
	h := pairOfEdges(t)
	k := h.key(t, unique("org"), "ai", "read")
	head := "POST " + chatRoute + " HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer " + k.Key + "\r\nContent-Type: application/json\r\n"

	body := h.dialEdge(t, head+"Content-Length: 1000\r\n\r\n{")
	header := h.dialEdge(t, "POST "+chatRoute+" HTTP/1.1\r\nHost: edge\r\nX-Slow: ")
	large := h.dialEdge(t, head+"X-Large: "+strings.Repeat("x", 80<<10)+"\r\n\r\n")

	h.both(k.Key)[0].post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	if got := readToEnd(t, body, 5*time.Second); !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "body: could not be read in whole") {
		t.Errorf("a body that never ends: %s", got)
	}
	if got := readToEnd(t, large, 5*time.Second); !strings.HasPrefix(got, "HTTP/1.1 431 ") {
		t.Errorf("headers of 80 KiB: %s", got)
	}
	readToEnd(t, header, 15*time.Second) // ten seconds of it are the listener's own limit
}

// Bodies up to the limit pass whole. A larger one is refused, also when only its Content-Length has been sent.
func TestEdgeLargeBodies(t *testing.T) {
	t.Parallel()
	h := pairOfEdges(t)
	to := h.receiver()
	k := h.key(t, unique("org"), "webhooks", "write")
	customer := h.both(k.Key)[1]
	text := strings.Repeat("0123456789abcdef", 500<<10/16)
	customer.post(t, deliveryRoute, to.deliver(object{"payload": object{"text": text}})).want(t, http.StatusAccepted)
	waitFor(t, waitTimeout, "the delivery", func() error {
		for _, a := range to.arrivals(t) {
			if strings.Contains(a.Body, text) {
				return nil
			}
		}
		return fmt.Errorf("not there")
	})
	customer.post(t, deliveryRoute, to.deliver(object{"payload": object{"text": text + text}})).refused(t, http.StatusRequestEntityTooLarge, "payload_too_large", "")
	conn := h.dialEdge(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", deliveryRoute, k.Key, edgeBody+1))
	_ = conn.SetReadDeadline(time.Now().Add(waitTimeout))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of more than the limit that is only announced: %d", answer.StatusCode)
	}
}

// While a service is down, its routes say so in the error format of the API that the
// caller uses, and all other routes keep working.
func TestEdgeServiceAway(t *testing.T) {
	t.Parallel()
	h := pairOfEdges(t)
	organization := unique("org")
	ai := h.customer(t, organization, "ai", "read")
	if err := h.Kill(string(stack.Gateway)); err != nil {
		t.Fatal(err)
	}
	a := ai.post(t, chatRoute, ask("sandbox", "hello"))
	if f := a.refused(t, http.StatusServiceUnavailable, "upstream_unavailable", ""); !*f.Retryable || f.RetryAfter < 1 || a.header.Get("Retry-After") == "" {
		t.Errorf("error %+v, headers %v", f, a.header)
	}
	for path, kind := range map[string]string{
		"/product/v1/ai/openai/v1/chat/completions": `"type":"server_error"`,
		"/product/v1/ai/anthropic/v1/messages":      `"type":"overloaded_error"`,
	} {
		a := ai.post(t, path, ask("sandbox", "hello"))
		if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), kind) || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: answered %d: %s", path, a.status, shorten(a.body))
		}
	}
	h.customer(t, organization, "notifications", "write").
		post(t, sendRoute, object{"channels": []string{"in_app"}, "message": "hello"}).want(t, http.StatusAccepted)
	if err := h.Restart(t.Context(), string(stack.Gateway)); err != nil {
		t.Fatal(err)
	}
	ai.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	h.awaitCount(t, organization, "llm_requests", 1)
}

// What the OpenAPI document promises works: each operation's example is served to a key of its product.
func TestEdgeDocument(t *testing.T) {
	t.Parallel()
	h := use(t)
	open := h.anonymous(stack.Edge)
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct{ Example object }
			}
			Extra struct {
				Products []string
				Scope    string
			} `json:"x-switchyard"`
		}
	}
	a := open.get(t, "/openapi.json").into(t, http.StatusOK, &document)
	page := open.get(t, "/docs").want(t, http.StatusOK)
	organization, examples := unique("org"), 0
	for path, methods := range document.Paths {
		for method, o := range methods {
			example := o.RequestBody.Content["application/json"].Example
			if method != "post" && method != "put" || strings.Contains(path, "{") || example["input_file_id"] != nil { // What they name has to be made first.
				continue
			}
			if strings.Contains(path, "/push/") { // off in this stack; its recipe has the same body
				continue
			}
			if example["url"] != nil { // the delivery stays on this machine
				example["url"] = h.receiver().url()
			}
			if example["deliveries"] != nil {
				example["deliveries"] = []object{h.receiver().deliver()}
			}
			examples++
			permissions := o.Extra.Scope
			if strings.HasSuffix(path, "/tokens") {
				permissions += ",notifications:*" // A key gives no scope that it lacks.
			}
			customer := h.customer(t, organization, o.Extra.Products[0], permissions)
			var body any = example
			if example == nil { // A form has none: it takes a file.
				customer, body = customer.form(t, map[string]string{"model": "sandbox", "purpose": "user_data"}, map[string]string{"file": "speech.wav", "image": "picture.png"})
			}
			if a := customer.do(t, strings.ToUpper(method), path, body); a.status/100 != 2 {
				t.Errorf("the example of %s: answered %d: %s", path, a.status, shorten(a.body))
			}
		}
	}
	if document.OpenAPI != "3.1.0" || examples < 7 {
		t.Errorf("version %s, %d examples", document.OpenAPI, examples)
	}
	for path, etag := range map[string]string{"/openapi.json": a.header.Get("ETag"), "/docs": page.header.Get("ETag")} {
		open.with("If-None-Match", etag).get(t, path).want(t, http.StatusNotModified)
	}
	if policy := page.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("the page's policy: %q", policy)
	}
	if !json.Valid(a.body) {
		t.Error("the document is no JSON")
	}
	if scripts := strings.Count(string(page.body), "<script"); scripts != 1 || !strings.Contains(string(page.body), `src="docs.js"`) {
		t.Errorf("the page has %d scripts, want only the one that finds", scripts)
	}
}
