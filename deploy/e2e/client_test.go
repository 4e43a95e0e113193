//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/deploy/dev/stack"
)

// object is a JSON object in a request.
type object map[string]any

// with returns the object with further or replaced fields.
func (o object) with(more ...object) object {
	o = maps.Clone(o)
	for _, fields := range more {
		maps.Copy(o, fields)
	}
	return o
}

// client calls one HTTP address with one set of headers.
type client struct {
	base   string
	header http.Header
}

var httpClient = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 64},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// anonymous returns a client of a member without a credential.
func (h *harness) anonymous(member stack.Service) client {
	return client{base: h.URL(string(member)), header: http.Header{}}
}

// metrics returns a client of the address that serves a member's /metrics.
func (h *harness) metrics(member stack.Service) client {
	return client{base: h.MetricsURL(string(member)), header: http.Header{}}
}

// service returns a client that calls a capability face as a first-party service, for an organization.
func (h *harness) service(member stack.Service, organization string) client {
	return h.anonymous(member).bearer(h.Secrets().Service).with("X-Organization-Id", organization)
}

// operator returns a client that calls a face as an operator.
func (h *harness) operator(member stack.Service) client {
	return h.anonymous(member).bearer(h.Secrets().Operator)
}

// customer returns a client of the edge with a new key.
func (h *harness) customer(t *testing.T, organization, product, permission string) client {
	t.Helper()
	return h.anonymous(stack.Edge).bearer(h.key(t, organization, product, permission).Key)
}

// productKey is the answer to the creation of a key.
type productKey struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

// key creates a product key. Its answer holds the key, so it isn't searched for secrets.
func (h *harness) key(t *testing.T, organization, product, permissions string) productKey {
	t.Helper()
	made := h.operator(stack.Edge).unrecorded(t, http.MethodPost, "/admin/v1/keys", object{
		"organization_id": organization, "product": product, "permissions": strings.Split(permissions, ","), "name": t.Name(),
	})
	var k productKey
	made.into(t, http.StatusCreated, &k)
	knownSecrets.add("the product key "+k.ID, k.Key)
	return k
}

func (c client) bearer(token string) client { return c.with("Authorization", "Bearer "+token) }

// with returns a client with further headers, given as names and values in turn. An empty value removes the header.
func (c client) with(pairs ...string) client {
	c.header = c.header.Clone()
	for pair := range slices.Chunk(pairs, 2) {
		c.header.Set(pair[0], pair[1])
		if pair[1] == "" {
			c.header.Del(pair[0])
		}
	}
	return c
}

// answer is a response that was read to its end.
type answer struct {
	label  string
	status int
	header http.Header
	body   []byte
}

func (c client) get(t *testing.T, path string) answer {
	t.Helper()
	return c.do(t, http.MethodGet, path, nil)
}

func (c client) post(t *testing.T, path string, body any) answer {
	t.Helper()
	return c.do(t, http.MethodPost, path, body)
}

// do makes a call and records its answer for the search for secrets. A string is sent as it is, other bodies as JSON.
func (c client) do(t *testing.T, method, path string, body any) answer {
	t.Helper()
	a := c.unrecorded(t, method, path, body)
	responses.add(a)
	return a
}

// amountField matches an amount of cents in JSON. An amount with more than 15 digits was computed in binary fractions.
var amountField = regexp.MustCompile(`"[a-z_]*cents[a-z_]*" ?: ?-?([0-9][0-9.]*)`)

func (c client) unrecorded(t *testing.T, method, path string, body any) answer {
	t.Helper()
	a, err := c.try(t, method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	for _, found := range amountField.FindAllSubmatch(a.body, -1) {
		if digits := bytes.Trim(bytes.Replace(found[1], []byte("."), nil, 1), "0"); len(digits) > 15 {
			t.Errorf("%s %s: %s is no decimal amount", method, path, found[0])
		}
	}
	return a
}

// try makes a call that may fail in transit, such as one to a member that is being killed.
func (c client) try(t *testing.T, method, path string, body any) (answer, error) {
	t.Helper()
	response, err := c.send(t, method, path, body)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{method + " " + path, response.StatusCode, response.Header, text}, err
}

func (c client) send(t *testing.T, method, path string, body any) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.base+path, reader(t, body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = c.header.Clone()
	if body != nil && request.Header.Get("Content-Type") == "" {
		request.Header.Set("Content-Type", "application/json")
	}
	return httpClient.Do(request)
}

// form returns a client that sends forms of several parts, and such a form: files are names of parts with those of the
// files in them.
func (c client) form(t *testing.T, fields, files map[string]string) (client, string) {
	t.Helper()
	var text strings.Builder
	w := multipart.NewWriter(&text)
	var err error
	for name, value := range fields {
		err = errors.Join(err, w.WriteField(name, value))
	}
	for name, file := range files {
		part, failed := w.CreateFormFile(name, file)
		if failed == nil {
			_, failed = part.Write([]byte("the bytes of " + file))
		}
		err = errors.Join(err, failed)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return c.with("Content-Type", w.FormDataContentType()), text.String()
}

func reader(t *testing.T, body any) io.Reader {
	t.Helper()
	switch body := body.(type) {
	case nil:
		return http.NoBody
	case string:
		return strings.NewReader(body)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		t.Fatal(err)
	}
	return &text
}

// want ends the test unless the answer has the status.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("%s answered %d, want %d: %s", a.label, a.status, status, shorten(a.body))
	}
	return a
}

// into decodes the answer's JSON into v. It ends the test unless the answer has the status.
func (a answer) into(t *testing.T, status int, v any) answer {
	t.Helper()
	a.want(t, status)
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%s answered no JSON of the form expected: %v: %s", a.label, err, shorten(a.body))
	}
	return a
}

// decoded reports whether the answer is JSON, which it decodes into v.
func decoded(a answer, v any) bool { return json.Unmarshal(a.body, v) == nil }

// fields returns the answer's JSON object, and fails the test for each missing field.
func (a answer) fields(t *testing.T, status int, names ...string) map[string]any {
	t.Helper()
	var found map[string]any
	a.into(t, status, &found)
	for _, name := range names {
		if _, there := found[name]; !there {
			t.Errorf("%s: the answer lacks %q: %s", a.label, name, shorten(a.body))
		}
	}
	return found
}

// failure is the error body of gateway, webhook-egress and edge.
type failure struct {
	Error      string `json:"error"`
	Class      string `json:"error_class"`
	Retryable  *bool  `json:"retryable"`
	RetryAfter int    `json:"retry_after"`
	Reason     string `json:"reason"`
	RequestID  string `json:"request_id"`
}

// refused checks the status, the code and the form of an error, and that its reason contains text.
func (a answer) refused(t *testing.T, status int, code, text string) failure {
	t.Helper()
	var f failure
	a.into(t, status, &f)
	f.complete(t, a.label)
	if f.Error != code || !strings.Contains(f.Reason, text) {
		t.Errorf("%s: error %q with reason %q, want %q with %q", a.label, f.Error, f.Reason, code, text)
	}
	if id := a.header.Get("X-Request-Id"); f.RequestID != id {
		t.Errorf("%s: request_id %q, the header says %q", a.label, f.RequestID, id)
	}
	return f
}

// classes holds whether errors of a class are retryable (specification, Errors).
var classes = map[string]bool{
	"transient": true, "rate_limit": true, "server_error": true,
	"auth": false, "policy": false, "context_overflow": false, "content_policy": false,
}

// complete checks the fields that every error body must have.
func (f failure) complete(t *testing.T, label string) {
	t.Helper()
	retryable, known := classes[f.Class]
	for field, missing := range map[string]bool{
		"error": f.Error == "", "reason": f.Reason == "", "request_id": f.RequestID == "", "retryable": f.Retryable == nil, "error_class": !known,
	} {
		if missing {
			t.Fatalf("%s: the error body has no usable %s: %+v", label, field, f)
		}
	}
	if *f.Retryable != retryable {
		t.Errorf("%s: class %s with retryable %v", label, f.Class, *f.Retryable)
	}
}

// refusedWith is refused for notify, whose error body holds the text only.
func (a answer) refusedWith(t *testing.T, status int, text string) {
	t.Helper()
	found := a.fields(t, status, "error")
	if said, _ := found["error"].(string); len(found) != 1 || !strings.Contains(said, text) || said == "" {
		t.Errorf("%s: %s, want only an error that says %q", a.label, shorten(a.body), text)
	}
}

func shorten(text []byte) string {
	const most = 600
	if len(text) > most {
		return string(text[:most]) + " ..."
	}
	return string(text)
}

// begin starts a call in the background. The function that it returns cancels the call and waits for its end.
func (c client) begin(t *testing.T, path string, body any) (leave context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, reader(t, body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = c.header.Clone()
	request.Header.Set("Content-Type", "application/json")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if response, err := httpClient.Do(request); err == nil {
			_ = response.Body.Close()
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// hashed returns a credential as the fakes show it.
func hashed(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// same fails the test if two values differ in a field.
func same(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
