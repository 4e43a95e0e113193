package upstream_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/upstream"
)

// Messages of the level that is wanted are passed on as they are, within bounds; a server of sessions is asked for nothing.
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
