//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

// custodies are the ways in which a key is stored and sent, by name: a key of the fleet in the header of each dialect
// and of Azure, and in a file that is replaced; an organization's own key sealed, in a file and in an environment
// variable.
var custodies = []struct {
	name   string
	vendor vendor
	// bring registers the key as the organization's own; nil for a key of the fleet.
	bring func(t *testing.T, h *harness, service client, v vendor)
}{
	{"bearer", vendor{dialect: "openai"}, nil},
	{"anthropic", vendor{dialect: "anthropic"}, nil},
	{"gemini", vendor{dialect: "gemini"}, nil},
	{"azure", vendor{dialect: "openai", more: object{"api_version": "2024-10-21"}}, nil},
	{"rotated", vendor{dialect: "openai"}, nil},
	{"sealed", vendor{dialect: "anthropic", keyless: true}, bringSealed},
	{"filed", vendor{dialect: "gemini", keyless: true}, bringFile},
	{variable, vendor{dialect: "openai", keyless: true}, bringVariable},
}

// variable is the custody of keys in the gateway's environment, for the one organization that they belong to.
const variable = "variable"

// leakOrganization is short: a longer name of random letters would be taken for a key.
var leakOrganization = "leak" + strings.ToLower(runSecret[:6])

// leakSettings returns settings with the keys of that custody.
func leakSettings() []string {
	settings := []string{"GATEWAY_BYOK_ENV_PREFIX=BYOK_{organization}__"}
	for i := range leaks {
		v := leaky[len(custodies)-1][i]
		settings = append(settings, "BYOK_"+leakOrganization+"__"+variableOf(v)+"="+v.key())
	}
	return settings
}

func variableOf(v vendor) string { return strings.ToUpper(strings.ReplaceAll(v.name, "-", "_")) }

func bringSealed(t *testing.T, h *harness, service client, v vendor) {
	t.Helper()
	service.post(t, byokPath, h.sealKey(t, leakOrganization, v.name, v.key())).want(t, http.StatusCreated)
}

func bringFile(t *testing.T, h *harness, service client, v vendor) {
	t.Helper()
	folder := filepath.Join(h.State(), "secrets", "gateway-organizations", leakOrganization)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, v.name), []byte(v.key()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	service.post(t, byokPath, object{"provider": v.name, "secret_ref": "file:" + v.name}).want(t, http.StatusCreated)
}

func bringVariable(t *testing.T, _ *harness, service client, v vendor) {
	t.Helper()
	service.post(t, byokPath, object{"provider": v.name, "secret_ref": "env:BYOK_" + leakOrganization + "__" + variableOf(v)}).want(t, http.StatusCreated)
}

// withOwnKey returns a face's request with the condition that only the organization's own key may pay for it.
func withOwnKey(face string, body object) object {
	require := object{"byok": object{"mode": "require"}}
	if face == "own" {
		return body.with(require)
	}
	return body.with(object{"switchyard": require})
}

// leaks are the ways in which a vendor may repeat the key that it was sent.
var leaks = []struct {
	name   string
	action func(key string) object
}{
	{"a 401 that repeats it", func(key string) object {
		return object{"status": 401, "body": fmt.Sprintf(`{"error":{"message":"Incorrect API key provided: %s.","code":"invalid_api_key","status":"UNAUTHENTICATED"}}`, key)}
	}},
	{"a page that shows it", func(key string) object {
		return object{"status": 500, "headers": object{"Content-Type": "text/html"}, "body": "<html><pre>Authorization: Bearer " + key + "</pre></html>"}
	}},
	{"a redirect to it", func(key string) object { return object{"redirect": "http://127.0.0.1:1/?key=" + key} }},
	{"an answer that is no JSON", func(key string) object {
		return object{"status": 200, "headers": object{"Content-Type": "application/json"}, "body": "api key " + key}
	}},
	{"an error behind a 200", func(key string) object {
		return object{"status": 200, "headers": object{"Content-Type": "text/event-stream"}, "body": fmt.Sprintf("event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"bad key %s\",\"type\":\"api_error\",\"code\":500}}\n\n", key)}
	}},
	{"headers that name it", func(key string) object {
		return object{"status": 429, "headers": object{"Retry-After": key, "X-Ratelimit-Reset-Requests": key, "X-Debug": key}}
	}},
}

// leaky has a vendor for each custody and leak: after one failure the gateway avoids a key for a while, which must not
// hide the next leak.
var leaky = func() (all [][]vendor) {
	for _, c := range custodies {
		var row []vendor
		for i := range leaks {
			v := c.vendor
			v.name = fmt.Sprintf("leaky-%s-%d", c.name, i)
			v.model = v.name
			row = append(row, addVendor(v))
		}
		all = append(all, row)
	}
	return all
}()

// A key that a vendor repeats is found nowhere afterwards. TestMain searches the stores, spools, logs, spans and the
// answers of all faces at the end of the run. This test searches the metrics, and the stores too, while they still hold
// everything. The traces of a panic are searched where a panic can be caused: see TestByokNeverLeaks and
// TestFleetKeyStaysInside of services/gateway/internal/api. Every secret is searched for without exceptions: what a
// service must keep is sealed or hashed.
func TestKeysStayInCustody(t *testing.T) {
	t.Parallel()
	h := use(t)
	service := h.service(stack.Gateway, leakOrganization)
	spans := exported.expect(leaky[0][0].model)
	for i, c := range custodies {
		for j, leak := range leaks {
			t.Run(c.name+", "+leak.name, func(t *testing.T) {
				v := leaky[i][j]
				key, path := v.key(), v.callPath()
				if c.bring != nil {
					c.bring(t, h, service, v)
					waitFor(t, waitTimeout, "the organization's own key", func() error {
						a, err := service.try(t, http.MethodPost, chatPath, withOwnKey("own", ask(v.model, "before")))
						if err == nil && a.status != http.StatusOK {
							err = fmt.Errorf("answered %d: %s", a.status, shorten(a.body))
						}
						return err
					})
				}
				if c.name == "rotated" {
					service.post(t, chatPath, ask(v.model, "before")).want(t, http.StatusOK)
					key = h.rotate(t, v)
					waitFor(t, waitTimeout, "the new key", func() error {
						service.post(t, chatPath, ask(v.model, "after")).want(t, http.StatusOK)
						return h.sentKey(t, v, path, key)
					})
				}
				if v.more["api_version"] != nil {
					path = "/openai/deployments/" + v.model + "/*"
				}
				h.script(t, stack.FakeProvider, rule{Match: object{"path": path, "body": "leak of " + v.name}, Action: leak.action(key)})
				for _, face := range faces {
					for _, stream := range []bool{false, true} {
						body := face.body(v.model, "leak of "+v.name).with(object{"stream": stream})
						if c.bring != nil {
							body = withOwnKey(face.name, body)
						}
						if a := service.post(t, face.path, body); a.status < 400 {
							t.Errorf("answered %d: %s", a.status, shorten(a.body))
						}
					}
				}
				request := llm(t, v.model, "leak of "+v.name)
				if c.bring != nil {
					request.Byok = &gatewayv1.ByokReference{Mode: "require"}
				}
				_, err := gatewayv1.NewInferenceServiceClient(h.grpc(t, stack.Gateway)).Chat(h.as(t, leakOrganization), request)
				if err == nil || len(knownSecrets.in([]byte(err.Error()))) > 0 {
					t.Errorf("over gRPC: %v", err)
				}
				if err := h.sentKey(t, v, path, key); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for where, text := range map[string]string{
		"the metrics": string(h.anonymous(stack.Gateway).get(t, "/metrics").want(t, http.StatusOK).body),
		"Postgres":    h.rowsOf(t), "Redis": h.keysOf(t), "the spool": strings.Join(h.spooled(t), ""),
	} {
		if text == "" && where != "the spool" { // The spool is empty when all rows are in Postgres.
			t.Errorf("%s: there is no text to search", where)
		}
		for _, what := range vendorKeysIn(text) {
			t.Errorf("%s is in %s", what, where)
		}
	}
	waitFor(t, waitTimeout, "the spans of these calls", spans)
}

// rotate replaces a vendor's key by another one.
func (h *harness) rotate(t *testing.T, v vendor) (key string) {
	t.Helper()
	key = "sk-canary-rotated-" + v.name + runSecret
	knownSecrets.add("a key that took the place of "+v.name+"'s", key)
	if err := os.WriteFile(filepath.Join(h.root, "keys", v.name), []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return key
}

// vendorKeysIn returns the descriptions of the provider keys that a text holds. Other secrets belong in some store: the
// hash of a product key is one, its organization another.
func vendorKeysIn(text string) (found []string) {
	for _, what := range knownSecrets.in([]byte(text)) {
		if strings.HasPrefix(what, "the key of provider") || strings.HasPrefix(what, "a key that took") {
			found = append(found, what)
		}
	}
	return found
}

// sentKey returns an error unless the vendor was sent the key: without that, the test proves nothing.
func (h *harness) sentKey(t *testing.T, v vendor, path, key string) error {
	t.Helper()
	var report struct {
		Last []vendorCall `json:"last"`
	}
	h.fake(stack.FakeProvider).get(t, "/_calls").into(t, http.StatusOK, &report)
	header, want := v.credential(key)
	for _, call := range report.Last {
		if strings.HasPrefix(call.Path, strings.TrimSuffix(path, "*")) && call.Headers.Get(header) == want {
			return nil
		}
	}
	return fmt.Errorf("%s never got its key as %s", v.name, header)
}
