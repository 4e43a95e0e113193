package providertest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// baseURL is the address of the vendors without a network.
const baseURL = "http://vendor.example"

// Transport is a vendor without a network.
type Transport func(*http.Request) (*http.Response, error)

// RoundTrip returns the vendor's answer to the request.
func (f Transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Canned returns a vendor that answers each request with the same status, header and text. It doesn't announce the
// text's length.
func Canned(status int, header http.Header, text string) Transport {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: header, ContentLength: -1, Request: r, Body: io.NopCloser(strings.NewReader(text)),
		}, nil
	}
}

// Repeat returns a text without an end: the given one over and over, in pieces as a connection delivers them.
func Repeat(text string) io.Reader { return &repeated{text: text} }

type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// Endless opens a stream whose vendor sends the start and then the frame over and over. If native is true, the request
// has a body in the dialect's own words and the stream is relayed, otherwise it is translated.
func (d Dialect) Endless(tb testing.TB, start, frame string, native bool) provider.Stream {
	tb.Helper()
	p, err := d.New(baseURL, Transport(func(r *http.Request) (*http.Response, error) {
		body := io.MultiReader(strings.NewReader(d.Framing.frames(start)), Repeat(d.Framing.frames(frame)))
		return &http.Response{StatusCode: http.StatusOK, Header: d.Framing.header(), Request: r, Body: io.NopCloser(body)}, nil
	}))
	if err != nil {
		tb.Fatal(err)
	}
	chat := &provider.Chat{Model: "m"}
	if native {
		chat.Native = &provider.Native{Dialect: d.Native.Dialect, Body: []byte("{}")}
	}
	stream, err := p.StreamChat(tb.Context(), provider.Credential{}, chat)
	if err != nil {
		tb.Fatal(err)
	}
	return stream
}

// Refused returns the error with which the provider itself refuses the chat, whole and streamed. It fails the test if
// the vendor gets a request.
func (d Dialect) Refused(t *testing.T, chat *provider.Chat) *provider.Error {
	t.Helper()
	p, err := d.New(baseURL, Transport(func(r *http.Request) (*http.Response, error) {
		t.Errorf("sent to %s, want nothing sent", r.URL)
		return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Chat(t.Context(), Credential(), chat)
	whole := failure(t, err)
	_, err = p.StreamChat(t.Context(), Credential(), chat)
	streamed := failure(t, err)
	if diff := cmp.Diff(whole.Text, streamed.Text); diff != "" {
		t.Errorf("text (-whole +streamed):\n%s", diff)
	}
	if whole.Class != apierr.ClassPolicy || streamed.Class != apierr.ClassPolicy {
		t.Fatalf("class %s, streamed %s, want %s", whole.Class, streamed.Class, apierr.ClassPolicy)
	}
	return whole
}

// ErrorOf returns the provider's error that err is or wraps, or fails the test.
func ErrorOf(t *testing.T, err error) *provider.Error {
	t.Helper()
	e, ok := errors.AsType[*provider.Error](err)
	if !ok {
		t.Fatalf("err = %v (%T), want an *provider.Error", err, err)
	}
	return e
}

// JSON returns the value as vendors write it: without HTML escapes.
func JSON(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // texts and maps never fail
	return strings.TrimSpace(text.String())
}
