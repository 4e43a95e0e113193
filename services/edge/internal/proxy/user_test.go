package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/proxy"
)

// Of a call with an end user's token the service gets the user and the owner of the token, none that the caller sends,
// and of the other headers only those that say what is asked for.
func TestHeadersOfEndUser(t *testing.T) {
	for _, owner := range []string{"", "team"} {
		var got http.Header
		e := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }),
			func(call *proxy.Call) { call.User, call.Owner = "ann", owner })
		e.post(t, strings.NewReader("{}"), http.Header{
			"X-User-Id": {"bob", "bob"}, "X-Owner-Id": {"other"}, "X-Run-Id": {"run"}, "X-Switchyard-Tags": {"a=b"},
			"Authorization": {"Bearer swt_x"}, "Origin": {"https://app.example.com"}, "Cookie": {"a=b"}, "Last-Event-Id": {"7"},
		})
		for name, want := range map[string]string{
			"X-User-Id": "ann", "X-Owner-Id": owner, "X-Run-Id": "", "X-Switchyard-Tags": "", "Origin": "", "Cookie": "", "Last-Event-Id": "7",
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
