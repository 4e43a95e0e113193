package upstream_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// A listing has the tools that a server defines only for clients that can answer it, in every version. A call shows what
// its caller can do, and nothing else.
func TestListForEveryClient(t *testing.T) {
	for name, version := range map[string]func(func(http.ResponseWriter, *http.Request, asked)) http.Handler{"modern": stub, "legacy": legacyStub} {
		t.Run(name, func(t *testing.T) {
			var shown []string
			calls := version(func(w http.ResponseWriter, _ *http.Request, m asked) {
				if m.Method == wire.MethodListTools {
					document(w, m, `"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"a","inputSchema":{"type":"object"}}]}`)
					return
				}
				document(w, m, good)
			})
			server, c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var m struct {
					Method string `json:"method"`
					Params struct {
						Capabilities json.RawMessage            `json:"capabilities"`
						Meta         map[string]json.RawMessage `json:"_meta"`
					} `json:"params"`
				}
				_ = json.Unmarshal(body, &m)
				if m.Method == wire.MethodInitialize {
					shown = append(shown, string(m.Params.Capabilities))
				} else if of := m.Params.Meta[wire.MetaCapabilities]; of != nil && name == "modern" && m.Method != wire.MethodDiscover {
					shown = append(shown, string(of))
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				calls.ServeHTTP(w, r)
			}), nil)
			if _, err := c.List(t.Context(), server); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a"}); err != nil {
				t.Fatal(err)
			}
			const all = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`
			if len(shown) != 2 || shown[0] != all || shown[1] != "{}" {
				t.Errorf("shown %q", shown)
			}
		})
	}
}
