package api_test

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/webhook-egress/internal/api"
)

// Every route takes memory in proportion to its body, and answers it, whatever
// its form: deep, wide, in many pieces, cut off.
func TestBodiesAreLinear(t *testing.T) {
	h := newServer(t, &domain{}).Handler()
	whole := func(payload string) string {
		return `{"url":"https://a.example/","event_type":"a","payload":` + payload + `}`
	}
	header := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"X-%d":"v",`, i)
		}
		return `{"url":"https://a.example/","event_type":"a","payload":{},"custom_headers":{` + strings.TrimSuffix(b.String(), ",") + `}}`
	}
	for name, body := range map[string]func(n int) string{
		"open arrays":      func(n int) string { return whole(strings.Repeat("[", n)) },
		"nested arrays":    func(n int) string { return whole(`{"a":` + strings.Repeat("[", n/2) + strings.Repeat("]", n/2) + `}`) },
		"nested objects":   func(n int) string { return whole(strings.Repeat(`{"a":`, n/6) + "1" + strings.Repeat("}", n/6)) },
		"wide objects":     func(n int) string { return whole(`{` + strings.Repeat(`"a":1,`, n/6) + `"a":1}`) },
		"escapes":          func(n int) string { return whole(`{"a":"` + strings.Repeat(`\u0041`, n/6) + `"}`) },
		"lone surrogates":  func(n int) string { return whole(`{"a":"` + strings.Repeat(`\ud800`, n/6) + `"}`) },
		"spaces":           func(n int) string { return whole(`{` + strings.Repeat(" ", n) + `}`) },
		"a long number":    func(n int) string { return whole(`{"a":1` + strings.Repeat("0", n) + `}`) },
		"a cut string":     func(n int) string { return whole(`{"a":"` + strings.Repeat("x", n)) },
		"many headers":     func(n int) string { return header(n / 12) },
		"a long header":    func(n int) string { return `{"custom_headers":{"` + strings.Repeat("X", n) + `":"v"}}` },
		"a long value":     func(n int) string { return `{"custom_headers":{"X":"` + strings.Repeat("v", n) + `"}}` },
		"unknown fields":   func(n int) string { return `{` + strings.Repeat(`"x":1,`, n/6) + `"x":1}` },
		"an unknown field": func(n int) string { return `{"x":` + strings.Repeat("[", n) },
	} {
		for _, route := range bodies() {
			path := strings.ReplaceAll(route.Path, "{id}", "x")
			cost := func(n int) uint64 {
				text := body(n)
				if path == "/v1/deliveries/batch" {
					text = `{"deliveries":[` + text + `]}`
				}
				request := httptest.NewRequest(route.Verb, path, strings.NewReader(text))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				h.ServeHTTP(httptest.NewRecorder(), request)
				runtime.ReadMemStats(&after)
				return after.TotalAlloc - before.TotalAlloc
			}
			cost(1 << 12) // What is made once.
			if small, large := cost(64<<10), cost(256<<10); large > 16*small+1<<20 {
				t.Errorf("%s, %s: 64 KiB allocate %d bytes, 256 KiB %d", path, name, small, large)
			}
		}
	}
}

// bodies are the routes of the contract that take one.
func bodies() (routes []rpc.Route) {
	for _, file := range api.Files() {
		for i := range file.Services().Len() {
			for _, route := range rpc.Routes(file.Services().Get(i), optionsv1.E_Role) {
				if route.Body && route.Path != "" {
					routes = append(routes, route)
				}
			}
		}
	}
	return routes
}
