package rpc_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/protobuf/types/dynamicpb"

	"switchyard.dev/services/platform/rpc"
)

// A handler of a path without parameters is reached without the mux, by the same rules: the caller, the method's role,
// its verb, the exact path and the rules for the body, even if the handler has already read the body.
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

// deadlines is a connection that records its read deadlines.
type deadlines struct {
	*httptest.ResponseRecorder

	set []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// A body has a read deadline, and none applies after it. A body that ends early is refused.
func TestTimeOfABody(t *testing.T) {
	b := setup(t, echo)
	b.server.Handle(http.MethodPost, "/v1/exact/time", "/rpctest.EchoService/Watch", func(w http.ResponseWriter, r *http.Request) error {
		_, err := w.Write(rpc.Body(r))
		return err
	})
	for _, test := range []struct {
		announced, sent, status int
	}{
		{5, 5, 200}, {-1, 5, 200}, {5, 4, 400}, {5, 0, 400}, {70_000, 70_000, 413},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/exact/time", iotest.HalfReader(strings.NewReader(strings.Repeat("a", test.sent))))
		r.ContentLength = int64(test.announced)
		r.Header.Set("Authorization", "Bearer svc")
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		rpc.BoundBodyForTest(b.server.Handler()).ServeHTTP(w, r)
		if w.Code != test.status || test.status == 200 && w.Body.Len() != test.sent {
			t.Errorf("%+v: %d %s", test, w.Code, w.Body)
		}
		if len(w.set) == 0 || w.set[0].IsZero() {
			t.Fatalf("%+v: read deadlines %v, want one while the body comes", test, w.set)
		}
		if last := w.set[len(w.set)-1]; test.status == 200 && !last.IsZero() {
			t.Errorf("%+v: the last read deadline is %v, want none", test, last)
		}
	}
}
