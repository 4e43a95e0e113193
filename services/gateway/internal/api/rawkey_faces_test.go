package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// bodiesOfFaces holds a request body for each path, without its closing brace.
var bodiesOfFaces = map[string]string{
	completions:                              `{"model":"sandbox",` + messages,
	messagesPath:                             `{"model":"sandbox","max_tokens":9,` + messages,
	responsesPath:                            `{"model":"sandbox","input":"hi"`,
	"/v1/responses/compact":                  `{"model":"sandbox","input":"hi"`,
	"/v1/embeddings":                         `{"model":"sandbox","input":"hi"`,
	"/v1/completions":                        `{"model":"sandbox","prompt":"hi"`,
	"/v1/moderations":                        `{"model":"sandbox","input":"hi"`,
	"/v1/audio/speech":                       `{"model":"sandbox","voice":"v","input":"hi"`,
	"/v1/rerank":                             `{"model":"sandbox","query":"q","documents":["d"]`,
	"/v2/rerank":                             `{"model":"sandbox","query":"q","documents":["d"]`,
	"/v1/messages/count_tokens":              `{"model":"sandbox",` + messages,
	"/v1beta/models/sandbox:generateContent": `{"contents":[{"parts":[{"text":"hi"}]}]`,
	"/v1beta/models/sandbox:embedContent":    `{"content":{"parts":[{"text":"hi"}]}`,
	"/openai/deployments/sandbox/chat/completions?api-version=2024-10-21": `{` + messages,
}

// Every face refuses a raw key in a field that controls a request, whether it knows the field or not, and the key
// appears in no packet, log or answer. A strict face refuses unknown fields whatever they hold.
func TestRawKeysInControlFieldsOfEveryFace(t *testing.T) {
	b := setup(t)
	escaped := strings.Replace(strayKey, "sk-", `\u0073k-`, 1)
	fields := map[string]string{
		"byok.provider": `"byok":{"provider":"` + strayKey + `"}`, "byok of no known form": `"byok":{"provider":"` + strayRandom + `"}`,
		"a nested key": `"byok":{"keys":[{"a":["` + strayKey + `"]}]}`, "a nested name": `"extra":{"` + strayKey + `":1}`,
		"api_key": `"api_key":"` + strayKey + `"`, "user": `"user":"` + strayKey + `"`, "metadata": `"metadata":{"note":"` + strayKey + `"}`,
		"a name in metadata": `"metadata":{"` + strayKey + `":"x"}`, "tags": `"tags":{"team":"` + strayKey + `"}`,
		"cache key": `"prompt_cache_key":"` + strayKey + `"`, "escaped": `"user":"` + escaped + `"`, "run_id": `"run_id":"` + strayKey + `"`,
		"the extension": `"switchyard":{"byok":{"provider":"` + strayKey + `"}}`, "tags of the extension": `"switchyard":{"tags":{"team":"` + strayKey + `"}}`,
	}
	v := &visited{bench: b}
	for path, body := range bodiesOfFaces {
		for name, field := range fields {
			status, text := v.say(t, http.MethodPost, path, body+","+field+"}")
			if status != http.StatusBadRequest || !strings.Contains(text, "raw key") && !strings.Contains(text, "unknown field") {
				t.Errorf("POST %s with %s: %d %s", path, name, status, text)
			}
		}
		for _, header := range []string{"Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "X-Run-Id", "X-User-Id", "X-Switchyard-Provider", "X-Switchyard-Tags"} {
			if (strings.Contains(path, "count_tokens") || path == "/v1/embeddings") && header != "X-Run-Id" && header != "X-User-Id" {
				continue // These paths neither read nor keep them.
			}
			if status, text := v.say(t, http.MethodPost, path, body+"}", header, strayKey); status != http.StatusBadRequest {
				t.Errorf("POST %s with the header %s: %d %s", path, header, status, text)
			}
		}
	}
	// A face doesn't keep headers that it doesn't read.
	for i, path := range []string{chatPath, completions, messagesPath} {
		id := fmt.Sprintf("req-header-%d", i)
		header := []string{"Anthropic-Version", "Openai-Beta", "X-Switchyard-Cache"}[i]
		body := strings.Replace(bodiesOfFaces[messagesPath], `{`, `{"stop":[],`, 1)
		if path != chatPath {
			body = bodiesOfFaces[path]
		}
		v.say(t, http.MethodPost, path, body+"}", header, strayKey, "X-Request-Id", id)
		v.say(t, http.MethodGet, "/v1/replay/"+id, "")
	}
	v.stayedOut(t)
}
