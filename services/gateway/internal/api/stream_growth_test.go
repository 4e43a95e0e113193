package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

// A vendor's answer in more and more pieces, through the whole gateway: what it keeps of a stream for approvals, traces
// and tools grows linearly with the pieces.
func TestStreamGrowsLinearly(t *testing.T) {
	b := setup(t)
	delta := func(of string) string { return `data: {"choices":[{"index":0,"delta":` + of + "}]}\n\n" }
	call := func(name string) string {
		return delta(`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"` + name + `","arguments":""}}]}`)
	}
	argument := delta(`{"tool_calls":[{"index":0,"function":{"arguments":"abcd"}}]}`)
	var rows []growth.Row
	for name, answer := range map[string][3]string{
		"text":                          {"", delta(`{"content":"abcd"}`), "stop"},
		"reasoning":                     {"", delta(`{"reasoning_content":"abcd"}`), "stop"},
		"arguments":                     {call("f"), argument, "tool_calls"},
		"arguments that need approval":  {call("deploy"), argument, "tool_calls"},
		"arguments at two indexes":      {call("f"), argument + delta(`{"tool_calls":[{"index":1,"function":{"arguments":"abcd"}}]}`), "tool_calls"},
		"text while approval is needed": {call("danger_x"), delta(`{"content":"abcd"}`), "tool_calls"},
		"calls":                         {"", delta(`{"tool_calls":[{"index":#,"id":"c#","type":"function","function":{"name":"f","arguments":"{}"}}]}`), "tool_calls"},
		"calls that need approval":      {"", delta(`{"tool_calls":[{"index":#,"id":"c#","type":"function","function":{"name":"deploy","arguments":"{}"}}]}`), "tool_calls"},
		"pings":                         {"", ": ping\n\n", "stop"},
		"empty deltas":                  {"", delta("{}"), "stop"},
	} {
		for _, path := range []string{chatPath, "/v1/chat/completions", "/v1/messages"} {
			rows = append(rows, growth.Row{Name: name + " on " + path, Top: 1 << 13, Make: func(n int) func() {
				b.vendor.says(answer[0], answer[1], answer[2], n)
				return func() {
					body := `{"model":"first/ok","stream":true,"max_tokens":100000,"messages":[{"role":"user","content":"hello"}],"tools":[]}`
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
					r.Header.Set("Authorization", "Bearer svc")
					r.Header.Set("X-Organization-Id", "acme")
					b.server.Handler().ServeHTTP(httptest.NewRecorder(), r)
				}
			}})
		}
	}
	growth.Linear(t, rows...)
}

// says makes the vendor answer every request with a stream of n pieces.
func (v *vendor) says(begin, piece, finish string, n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests, v.keys = nil, nil
	v.fails = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, begin)
		for i := range n {
			_, _ = io.WriteString(w, strings.ReplaceAll(piece, "#", strconv.Itoa(i)))
		}
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{},"finish_reason":"`+finish+`"}]}`+"\n\ndata: [DONE]\n\n")
	}
}
