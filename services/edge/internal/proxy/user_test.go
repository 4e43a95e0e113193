package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/proxy"
)

// For a call with an end user's token, the edge takes user and owner from the token and ignores the caller's. It passes
// on only the headers that describe the request. The user is verified only if the token says so.
func TestHeadersOfEndUser(t *testing.T) {
	for owner, verified := range map[string]string{"": "true", "team": ""} {
		var got http.Header
		session := map[bool]string{true: "true"}[owner != ""]
		e := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }),
			func(call *proxy.Call) { call.User, call.Owner, call.Verified = "ann", owner, verified != "" })
		e.post(t, strings.NewReader("{}"), http.Header{
			"X-User-Id": {"bob", "bob"}, "X-User-Verified": {"true"}, "X-Owner-Id": {"other"}, "X-Owner-Session": {"true"}, "X-Run-Id": {"run"}, "X-Switchyard-Tags": {"a=b"},
			"Authorization": {"Bearer swt_x"}, "Origin": {"https://app.example.com"}, "Cookie": {"a=b"}, "Last-Event-Id": {"7"},
		})
		for name, want := range map[string]string{
			"X-User-Id": "ann", "X-User-Verified": verified, "X-Owner-Id": owner, "X-Owner-Session": session, "X-Run-Id": "", "X-Switchyard-Tags": "", "Origin": "", "Cookie": "", "Last-Event-Id": "7",
		} {
			if values := strings.Join(got.Values(name), "|"); values != want {
				t.Errorf("%s: the service got %q, want %q", name, values, want)
			}
		}
		if strings.Contains(got.Get("Authorization"), "swt_") {
			t.Error("the service got the token")
		}
	}
}

// A key only names its users. A service learns that a user is verified only if the edge has verified the user.
func TestKeysVerifyNoUser(t *testing.T) {
	for verified, want := range map[bool]string{true: "true", false: ""} {
		var got http.Header
		e := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }), func(call *proxy.Call) { call.Verified = verified })
		e.post(t, strings.NewReader("{}"), http.Header{"X-User-Id": {"ann"}, "X-User-Verified": {"true"}})
		if got.Get("X-User-Id") != "ann" || got.Get("X-User-Verified") != want {
			t.Errorf("verified %t: the service got %v", verified, got)
		}
	}
}

// If a call replaces the body, the service gets the new body with its length.
func TestReplacedBodies(t *testing.T) {
	var got string
	for _, sent := range []string{"", "{}", strings.Repeat("x", 100_000)} {
		e := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			got = fmt.Sprint(r.ContentLength, " ", string(text), " ", err)
		}), func(call *proxy.Call) {
			call.Body = func(_ context.Context, body io.Reader) ([]byte, error) {
				text, err := io.ReadAll(body)
				return fmt.Appendf(nil, "%d bytes", len(text)), err
			}
		})
		e.post(t, strings.NewReader(sent), http.Header{})
		if text := fmt.Sprint(len(sent), " bytes"); got != fmt.Sprint(len(text), " ", text, " <nil>") {
			t.Errorf("%d bytes: the service got %q", len(sent), got)
		}
	}
}
