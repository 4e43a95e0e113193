package rpc_test

import (
	"io"
	"net/http"
	"testing"

	"google.golang.org/protobuf/types/dynamicpb"
)

// A handler of a literal path is reached past the mux, by the same rules: the
// caller, the method's role, its verb, the path as it is written and what the
// body may hold, also behind a body that somebody has read.
func TestHandlerOfLiteralPath(t *testing.T) {
	b := setup(t, echo)
	b.server.Handle(http.MethodPost, "/v1/exact/path", "/rpctest.EchoService/Watch", func(w http.ResponseWriter, r *http.Request) error {
		if r.Header.Get("X-Peek") != "" {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		err := b.server.Decode(r, dynamicpb.NewMessage(echoContract.echo))
		if err == nil {
			_, err = io.WriteString(w, "served")
		}
		return err
	})
	for name, test := range map[string]struct {
		verb, path, token, body string
		status                  int
	}{
		"served":               {"POST", "/v1/exact/path", "svc", `{"user_name":"ann"}`, 200},
		"no body":              {"POST", "/v1/exact/path", "svc", ``, 200},
		"a stranger":           {"POST", "/v1/exact/path", "", `{"user_name":"ann"}`, 401},
		"another verb":         {"GET", "/v1/exact/path", "svc", ``, 405},
		"another spelling":     {"POST", "/v1/exact%2Fpath", "svc", `{"user_name":"ann"}`, 404},
		"an unknown parameter": {"POST", "/v1/exact/path?x=1", "svc", `{"user_name":"ann"}`, 400},
		"an unknown field":     {"POST", "/v1/exact/path", "svc", `{"x":1}`, 400},
		"a zero byte":          {"POST", "/v1/exact/path", "svc", `{"user_name":"a\u0000"}`, 400},
	} {
		for _, peek := range []string{"", "1"} {
			status, body, _ := b.do(t, test.verb, test.path, test.token, test.body, "X-Peek", peek)
			if status != test.status || status == 200 && body != "served" {
				t.Errorf("%s, peek %q: %d %s, want %d", name, peek, status, body, test.status)
			}
		}
	}
}
