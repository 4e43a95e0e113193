//go:build e2e

package e2e_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// rule is a rule of a fake's script: which calls it matches, how many of them it applies to (0 is all), and what
// happens to them. See deploy/fakes.
type rule struct {
	Match  object `json:"match"`
	Times  int    `json:"times"`
	Action object `json:"action"`
}

// fake returns a client of the control paths of a fake.
func (h *harness) fake(f stack.Fake) client { return client{base: h.FakeURL(f), header: http.Header{}} }

func (h *harness) script(t *testing.T, f stack.Fake, rules ...rule) {
	t.Helper()
	h.fake(f).post(t, "/_script", map[string][]rule{"rules": rules}).want(t, http.StatusOK)
}

// vendor is a provider in the gateway's configuration: the fake one, under a name of its own. Two vendors of one model
// are each other's substitutes; the first is preferred.
type vendor struct {
	name, dialect, model string
	upstream             string // the vendor's name for the model; empty for the same name
	keyless              bool
	noImageURLs          bool     // it doesn't fetch images by URL
	hostile              string   // the behaviour of all its answers, which makes it the hostile fake; empty for none
	more                 object   // further fields of its entry in the providers file
	pool                 []string // the names of its credentials; none for one key
	quota                object   // the limits of each credential of the pool
}

// at matches the calls to the vendor on a path of the fake.
func (v vendor) at(path string) object {
	return object{"path": path, "body": fmt.Sprintf(`"model":%q`, cmp.Or(v.upstream, v.model))}
}

// entry returns the vendor's model as it is in the providers file.
func (v vendor) entry() object {
	model := object{
		"name": v.model, "upstream": cmp.Or(v.upstream, v.model),
		"input_per_mtok_usd": fmt.Sprint(inputPrice), "output_per_mtok_usd": fmt.Sprint(outputPrice),
	}
	if v.noImageURLs {
		model["features"] = []string{}
	}
	if v.more["batches"] != nil {
		model["batch_percent"] = batchPercent
	}
	return model
}

// key returns the fleet's key for the vendor.
func (v vendor) key() string {
	sum := sha256.Sum256([]byte(runSecret + v.name))
	return "sk-canary-" + hex.EncodeToString(sum[:])
}

// callPath returns the path by which the vendor's dialect calls the fake; "*" stands for the name of a method.
func (v vendor) callPath() string {
	switch v.dialect {
	case "anthropic":
		return "/v1/messages"
	case "gemini":
		return "/v1beta/models/" + cmp.Or(v.upstream, v.model) + ":*"
	case "bedrock":
		return "/model/" + cmp.Or(v.upstream, v.model) + "/*"
	}
	return "/v1/chat/completions"
}

// answerPath returns the path of the fake on which the vendor is asked for answers, of the API that it prefers.
func (v vendor) answerPath() string {
	if v.more["responses"] != nil {
		return "/v1/responses"
	}
	return v.callPath()
}

// match matches the calls to the vendor: no other vendor has its model and its dialect.
func (v vendor) match() object {
	if v.dialect == "gemini" || v.dialect == "bedrock" {
		return object{"path": v.callPath()} // The model is in the path.
	}
	return v.at(v.callPath())
}

// got reports whether a call was to the vendor.
func (v vendor) got(call vendorCall) bool {
	if model, found := strings.CutSuffix(v.callPath(), "*"); found {
		return strings.HasPrefix(call.Path, model)
	}
	return call.Path == v.callPath() && strings.Contains(call.Body, fmt.Sprintf(`"model":%q`, v.model))
}

// credential returns the header that carries the vendor's key, and the value that the fake shows for it.
func (v vendor) credential(key string) (name, value string) {
	switch {
	case v.more["api_version"] != nil:
		return "Api-Key", hashed(key)
	case v.dialect == "anthropic":
		return "X-Api-Key", hashed(key)
	case v.dialect == "gemini":
		return "X-Goog-Api-Key", hashed(key)
	}
	return "Authorization", "Bearer " + hashed(key)
}

// Prices of every vendor's model, in USD per million tokens.
const (
	inputPrice  = 3.0
	outputPrice = 15.0
)

// batchPercent is what a request in a batch costs at a vendor that runs batches, in percent of these prices.
const batchPercent = 50

// cents returns the cost of tokens at these prices.
func cents(input, output int) float64 {
	return (float64(input)*inputPrice + float64(output)*outputPrice) / 1e6 * 100
}

// vendors are the vendors of all stacks. Each test has its own, because its faults must not affect another test.
var vendors []vendor

func addVendor(v vendor) vendor {
	vendors = append(vendors, v)
	return v
}

// pair is a model that two vendors have, usually one of each dialect.
type pair struct{ first, second vendor }

// named returns the name that requests the model at this vendor first: among equal vendors the gateway would choose by
// affinity.
func (v vendor) named() string { return v.name + "/" + v.model }

func addPair(model string) pair {
	return pair{
		first:  addVendor(vendor{name: model + "-first", dialect: "openai", model: model}),
		second: addVendor(vendor{name: model + "-second", dialect: "anthropic", model: model}),
	}
}

// poolFiles returns the entries of a vendor's pool, and adds their key files.
func (h *harness) poolFiles(v vendor, files map[string]string) []object {
	var pool []object
	for _, name := range v.pool {
		file := filepath.Join("keys", v.name+"-"+name)
		files[file] = v.pooled(name).key() + "\n"
		pool = append(pool, object{"name": name, "key_file": filepath.Join(h.root, file)}.with(v.quota))
	}
	return pool
}

// pooled returns a vendor that has the key of a pool's member.
func (v vendor) pooled(name string) vendor {
	return vendor{name: v.name + "/" + name, dialect: v.dialect}
}

// versions are the versions of the dialects, which a base URL with a path must name.
var versions = map[string]string{"openai": "/v1", "gemini": "/v1beta", "cohere": "/v2"}

// writeFiles writes the files that the settings name: the providers file with the vendors at a base URL, their keys,
// the policy, and an organization's signing secret.
func (h *harness) writeFiles(provider string) error {
	if provider == "" {
		provider = "http://127.0.0.1:1" // the address is not known yet
	}
	files := map[string]string{filepath.Join("org-secrets", secretOrganization): organizationSecret + "\n"}
	var providers []object
	for _, v := range h.vendors {
		keyFile := filepath.Join("keys", v.name)
		files[keyFile] = v.key() + "\n"
		if v.keyless {
			files[keyFile] = ""
		}
		base := provider
		switch {
		case v.name == hangingProvider.name:
			base = hangingServer.url
		case v.hostile != "" && h.Stack != nil:
			base = h.FakeURL(stack.FakeHostileProvider) + "/hostile/" + v.hostile + versions[v.dialect]
		}
		entry := object{"name": v.name, "dialect": v.dialect, "base_url": base, "models": []object{v.entry()}}.with(v.more)
		if len(v.pool) == 0 {
			entry["key_file"] = filepath.Join(h.root, keyFile)
		} else {
			entry["credentials"] = h.poolFiles(v, files)
		}
		providers = append(providers, entry)
	}
	text, err := json.Marshal(object{"providers": providers})
	if err != nil {
		return err
	}
	files["providers.json"] = string(text)
	policy, err := os.ReadFile(h.policy)
	if err != nil {
		return err
	}
	more := "\ntools_needing_approval: [" + guardedTool + "]\n"
	if h.policy == shippedPolicy { // The programs of an earlier release don't know of hedging.
		more += hedgedPolicy + "\n" + h.tools + "\n"
	}
	files["policy.yaml"] = string(policy) + more
	for name, text := range files {
		path := filepath.Join(h.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (h *harness) gatewaySettings() []string {
	return append(leakSettings(),
		"OTEL_EXPORTER_OTLP_ENDPOINT="+exported.url,
		"GATEWAY_EXTRA_PROVIDERS_FILE="+filepath.Join(h.root, "providers.json"),
		"GATEWAY_POLICY_FILE="+filepath.Join(h.root, "policy.yaml"),
	)
}

// The gateway's policy is the shipped one, with one tool that needs an approval, and with hedging.
const (
	policyInTree  = "services/gateway/shipped/policy.yaml"
	shippedPolicy = "../../" + policyInTree
	guardedTool   = "guarded_deploy"
	approvedTools = "tools: {rules: [{name: payments, tools: [pay], approval: required}], " + sampledTools + "}"
)

// vendorCall is a call as the fake provider recorded it, with hashed credentials.
type vendorCall struct {
	Path    string      `json:"path"`
	Headers http.Header `json:"headers"`
	Body    string      `json:"body"`
}

// vendorCalls returns the recorded calls to a vendor.
func (h *harness) vendorCalls(t *testing.T, v vendor) []vendorCall {
	t.Helper()
	var report struct {
		Last []vendorCall `json:"last"`
	}
	h.fake(stack.FakeProvider).get(t, "/_calls").into(t, http.StatusOK, &report)
	var calls []vendorCall
	for _, call := range report.Last {
		if v.got(call) {
			calls = append(calls, call)
		}
	}
	return calls
}

// arrival is a delivery as the fake receiver recorded it.
type arrival struct {
	Method    string      `json:"method"`
	Path      string      `json:"path"`
	ID        string      `json:"id"`
	Headers   http.Header `json:"headers"`
	Body      string      `json:"body"`
	Signature string      `json:"signature"`
}

// receiver is a path of the fake webhook receiver that only one test uses.
type receiver struct {
	harness *harness
	path    string
}

func (h *harness) receiver() receiver { return receiver{h, "/hooks/" + unique("r")} }

func (r receiver) url() string { return r.harness.FakeURL(stack.FakeWebhook) + r.path }

// answers scripts the receiver's next answers, one action for each; the last action applies to all further ones.
func (r receiver) answers(t *testing.T, actions ...object) {
	t.Helper()
	var rules []rule
	for i, action := range actions {
		times := 1
		if i == len(actions)-1 {
			times = 0
		}
		rules = append(rules, rule{Match: object{"path": r.path}, Times: times, Action: action})
	}
	r.harness.script(t, stack.FakeWebhook, rules...)
}

// arrivals returns the deliveries that arrived, oldest first.
func (r receiver) arrivals(t *testing.T) []arrival {
	t.Helper()
	var page struct {
		Arrivals []arrival `json:"arrivals"`
	}
	query := url.Values{"path": {r.path}, "limit": {"100000"}}
	r.harness.fake(stack.FakeWebhook).get(t, "/_arrivals?"+query.Encode()).into(t, http.StatusOK, &page)
	return page.Arrivals
}
