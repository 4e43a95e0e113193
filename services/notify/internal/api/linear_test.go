package api_test

import (
	"runtime"
	"strings"
	"testing"

	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/platform/rpc"
)

// Every route takes memory in proportion to its body, and answers it, whatever
// its form: deep, wide, in many pieces, cut off.
func TestBodiesAreLinear(t *testing.T) {
	b := setup(t, withWebPush)
	data := func(text string) string {
		return `{"channels":["in_app"],"message":"m","target":{"data":` + text + `}}`
	}
	payload := func(text string) string {
		return `{"channels":["webhook"],"message":"m","target":{"url":"https://a.example/","payload":` + text + `}}`
	}
	for name, body := range map[string]func(n int) string{
		"open arrays": func(n int) string { return data(strings.Repeat("[", n)) },
		"nested arrays": func(n int) string {
			return payload(`{"a":` + strings.Repeat("[", n/2) + strings.Repeat("]", n/2) + `}`)
		},
		"nested objects": func(n int) string { return payload(strings.Repeat(`{"a":`, n/6) + "1" + strings.Repeat("}", n/6)) },
		"wide objects":   func(n int) string { return payload(`{` + strings.Repeat(`"a":1,`, n/6) + `"a":1}`) },
		"escapes":        func(n int) string { return data(`{"a":"` + strings.Repeat(`\u0041`, n/6) + `"}`) },
		"spaces":         func(n int) string { return payload(`{` + strings.Repeat(" ", n) + `}`) },
		"a cut string":   func(n int) string { return data(`{"a":"` + strings.Repeat("x", n)) },
		"channels":       func(n int) string { return `{"channels":["` + strings.Repeat(`in_app","`, n/9) + `"]}` },
		"an address": func(n int) string {
			return `{"channels":["email"],"message":"m","target":{"email":"` + strings.Repeat("(", n) + `"}}`
		},
		"keys": func(n int) string {
			return `{"subscription":{"endpoint":"https://a.example","keys":{` + strings.Repeat(`"k":"v",`, n/8) + `"a":"b"}}}`
		},
		"unknown fields": func(n int) string { return `{` + strings.Repeat(`"x":1,`, n/6) + `"x":1}` },
	} {
		for _, service := range services() {
			for _, route := range rpc.Routes(service, optionsv1.E_Role) {
				if !route.Body || route.Path == "" {
					continue
				}
				cost := func(n int) uint64 {
					text := body(n)
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					b.do(t, route.Verb, strings.ReplaceAll(route.Path, "{id}", "x"), text)
					runtime.ReadMemStats(&after)
					return after.TotalAlloc - before.TotalAlloc
				}
				cost(1 << 12) // What is made once.
				if small, large := cost(64<<10), cost(256<<10); large > 16*small+1<<20 {
					t.Errorf("%s, %s: 64 KiB allocate %d bytes, 256 KiB %d", route.Path, name, small, large)
				}
			}
		}
	}
}
