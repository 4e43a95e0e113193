package upstream_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Messages of the level that is wanted are passed on as they are, within bounds; a server of sessions that says nothing of log messages
// is asked for nothing.
func TestLogMessages(t *testing.T) {
	const warning, failure = `{"level":"warning","logger":"a", "data":{"n":1.0}}`, `{"level":"error","data":null}`
	for name, handler := range map[string]func(func(http.ResponseWriter, *http.Request, asked)) http.Handler{"modern": stub, "legacy": legacyStub} {
		t.Run(name, func(t *testing.T) {
			level := make(chan string, 4)
			server, c := serve(t, handler(func(w http.ResponseWriter, _ *http.Request, m asked) {
				level <- string(m.Params.Meta["io.modelcontextprotocol/logLevel"])
				var events []string
				for _, params := range []string{
					`{"level":"debug","data":1}`, warning, `{"level":"loud","data":1}`, `{"level":"error"}`, `{"level":1,"data":1}`, failure,
					`{"level":"error","data":"` + strings.Repeat("x", 70_000) + `"}`,
				} {
					events = append(events, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":%s}`, params))
				}
				stream(w, append(events, response(m, good))...)
			}), nil)
			var got []string
			log := upstream.Log{Level: "warning", Receive: func(params json.RawMessage) { got = append(got, string(params)) }}
			if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a", Log: log}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, []string{warning, failure}) {
				t.Errorf("passed on %q", got)
			}
			if asked := <-level; (asked == `"warning"`) != (name == "modern") {
				t.Errorf("asked for %q", asked)
			}
			if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a"}); err != nil || <-level != "" {
				t.Errorf("not wanted: %v", err)
			}
		})
	}
	many := strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/message","params":`+failure+"}\n", 1500), "\n")
	server, c := serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) {
		stream(w, append(strings.Split(many, "\n"), response(m, good))...)
	}), nil)
	n := 0
	if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a", Log: upstream.Log{Receive: func(json.RawMessage) { n++ }}}); err != nil || n != 1000 {
		t.Errorf("%d messages, %v", n, err)
	}
}

// A server of a session is asked once for the least severe level that its callers want, and each gets what it wants.
func TestLogLevelOfASession(t *testing.T) {
	var levels []string
	calls := legacyStub(func(w http.ResponseWriter, _ *http.Request, m asked) {
		if m.Method == wire.MethodSetLevel {
			levels = append(levels, m.Params.Level)
			document(w, m, `"result":{}`)
			return
		}
		var events []string
		for _, level := range []string{"debug", "info", "error"} {
			events = append(events, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"data":1}}`, level))
		}
		stream(w, append(events, response(m, good))...)
	})
	server, c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.ServeHTTP(&logging{w}, r)
	}), nil)
	for _, tt := range []struct {
		level string
		want  int
	}{{"", 0}, {"error", 1}, {"error", 1}, {"info", 2}, {"warning", 1}, {"debug", 3}, {"debug", 3}} {
		got := 0
		log := upstream.Log{Level: tt.level}
		if tt.level != "" {
			log.Receive = func(json.RawMessage) { got++ }
		}
		if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a", Log: log}); err != nil || got != tt.want {
			t.Errorf("%q: %d messages, want %d; %v", tt.level, got, tt.want, err)
		}
	}
	if want := []string{"error", "info", "debug"}; !slices.Equal(levels, want) {
		t.Errorf("asked for %q, want %q", levels, want)
	}
}

// logging says that a stub can be asked for log messages.
type logging struct{ http.ResponseWriter }

func (l *logging) Write(text []byte) (int, error) {
	if _, err := l.ResponseWriter.Write(bytes.Replace(text, []byte(`"capabilities":{`), []byte(`"capabilities":{"logging":{},`), 1)); err != nil {
		return 0, err
	}
	return len(text), nil
}

func (l *logging) Unwrap() http.ResponseWriter { return l.ResponseWriter }
