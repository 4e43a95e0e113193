package api_test

import (
	"fmt"
	"net/http"
	"testing"
)

// If a host answers only that it lacks something, the next host of the model serves. If the request is at fault, the
// caller gets the error.
func TestVendorThatLacksFeatureFailsOver(t *testing.T) {
	b := setupWith(t, `default_model: first/m
providers:
  - {name: first, dialect: gemini, base_url: %[1]s, key_file: first.key, models: [m]}
  - {name: second, dialect: openai, base_url: %[1]s, key_file: first.key, models: [m]}
`)
	const body = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"messages":[{"role":"user","content":"u"}]}`
	for _, c := range []struct {
		status int
		text   string
		want   int
	}{
		{400, "Function calling with a response mime type: 'application/json' is unsupported", 200},
		{400, "Penalty is not enabled for models/m", 200},
		{404, "No endpoints found that support tool use.", 200},
		{400, "Please ensure that function call turn comes immediately after a user turn.", 400},
		{404, "models/m is not found for API version v1beta, or is not supported for generateContent.", 400},
	} {
		b.vendor.mu.Lock()
		b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Goog-Api-Key") == "" {
				limitedVendor(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"status":"INVALID_ARGUMENT"}}`, c.status, c.text)
		}
		b.vendor.mu.Unlock()
		for face, path := range map[string]string{"contract": chatPath, "openai": completions} {
			before := b.vendor.count()
			answer := b.say(t, "POST", path, `{"model":"m",`+body)
			calls := map[bool]int{true: 2, false: 1}[c.want == 200]
			if n := b.vendor.count() - before; answer.status != c.want || n != calls {
				t.Errorf("%s, %d %s: %d %s after %d calls", face, c.status, c.text, answer.status, answer.body, n)
			}
		}
	}
}
