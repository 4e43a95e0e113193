package api_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/platform/apierr"
)

const byokMethod = "/switchyard.gateway.v1.ByokService/CreateByokConfig"

// cheapest returns the least processor time of several runs, so that a busy machine matters little.
func cheapest(t *testing.T, work func()) time.Duration {
	t.Helper()
	spent := func() time.Duration {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			t.Fatal(err)
		}
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	best := time.Duration(1<<63 - 1)
	for range 5 {
		start := spent()
		for range 2 {
			work()
		}
		best = min(best, spent()-start)
	}
	return max(best, time.Millisecond)
}

// The search for raw keys costs in proportion to a body's size, however deep it is: four times the levels take about
// four times as long, not sixteen times.
func TestLookForRawKeysIsProportional(t *testing.T) {
	for name, body := range map[string]func(n int) string{
		"arrays":  func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) },
		"objects": func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) },
		"both":    func(n int) string { return strings.Repeat(`[{"a":1,"b":`, n/2) + "1" + strings.Repeat("}]", n/2) },
		"names":   func(n int) string { return `{` + strings.Repeat(`"Name-1":1,`, n) + `"a":1}` },
		"texts":   func(n int) string { return `["` + strings.Repeat(`sk-abc `, n) + `"]` },
	} {
		took := func(n int) time.Duration {
			text := []byte(body(n))
			return cheapest(t, func() {
				if err := api.RefuseRawKeyBody(byokMethod, text); err != nil {
					t.Fatal(err)
				}
			})
		}
		small, large := took(2000), took(8000)
		if large > 10*small {
			t.Errorf("%s: 8000 levels take %v, 2000 %v: more than 10 times as long", name, large, small)
		}
	}
}

// A body that is larger than any of its kind needs to be is not searched.
func TestCredentialBodiesAreBounded(t *testing.T) {
	body := func(n int) []byte { return []byte(`{"provider":"` + strings.Repeat(" ", n) + `"}`) }
	if err := api.RefuseRawKeyBody(byokMethod, body(100<<10)); err != nil {
		t.Errorf("100 KiB: %v", err)
	}
	if e := apierr.From(api.RefuseRawKeyBody(byokMethod, body(128<<10))); e == nil || e.Kind != apierr.KindTooLarge {
		t.Errorf("more than 128 KiB: %v, want too_large", e)
	}
}

// A raw key is found anywhere, and the error names the nearest field above it that may be repeated.
func TestRawKeysAnywhere(t *testing.T) {
	const key = "sk-proj-a8Fk29dkLq0Zx7Yw3mNb"
	for body, field := range map[string]string{
		`{"secret_ref":"` + key + `"}`:                       "secret_ref",
		`{"a":{"b":["x",{"c":[["` + key + `"]]}]}}`:          "c",
		`{"a":{"Odd-Name":"` + key + `"}}`:                   "a",
		`{"a":{"b":1,"Odd-Name":{"C":"` + key + `"}}}`:       "a",
		`{"a":{"b":{}},"c":"` + key + `"}`:                   "c",
		`["` + key + `"]`:                                    "body",
		`{"` + key + `":1}`:                                  "body",
		`{"a":{"x":{"` + key + `":1}}}`:                      "body",
		`{"a":1,"a":"` + key + `"}`:                          "a",
		`{"a":"\u0073k-proj-a8Fk29dkLq0Zx7Yw3mNb"}`:          "a",
		`{"a":"` + key + `"`:                                 "a",
		`{"ciphertext":"` + key + `"}`:                       "",
		`{"ciphertext":["` + key + `"]}`:                     "",
		`{"ciphertext":{"a":"` + key + `"}}`:                 "a",
		`{"a":"none","b":[1,true,null]}`:                     "",
		strings.Repeat("[", 150) + `"` + key + `"`:           "body",
		`{"a":` + strings.Repeat("[", 150) + `"` + key + `"`: "a",
	} {
		err := api.RefuseRawKeyBody(byokMethod, []byte(body))
		switch {
		case field == "" && err != nil:
			t.Errorf("%.60s: %v", body, err)
		case field != "" && (err == nil || !strings.HasPrefix(apierr.From(err).Text, field+": ") || strings.Contains(err.Error(), key)):
			t.Errorf("%.60s: %v, want a refusal of %s", body, err, field)
		}
	}
}
