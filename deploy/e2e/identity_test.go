//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// workload is what a workload has at the fake token servers.
type workload struct {
	Tokens          map[string]string `json:"workload_tokens"`
	Values          map[string]string `json:"values"`
	ServiceAccount  json.RawMessage   `json:"service_account"`
	ExternalAccount json.RawMessage   `json:"external_account"`
}

// addSecrets adds what the workload proves itself with to knownSecrets.
func (w *workload) addSecrets(t *testing.T) {
	t.Helper()
	for _, name := range []string{"secret_access_key", "client_secret", "authorization_token"} {
		knownSecrets.add("the workload's "+name, w.Values[name])
	}
	for issuer, token := range w.Tokens {
		knownSecrets.add("the workload's token for "+issuer, token)
	}
	var account struct {
		PrivateKey string `json:"private_key"`
	}
	if err := json.Unmarshal(w.ServiceAccount, &account); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(account.PrivateKey, "\n")
	if len(lines) < 3 {
		t.Fatal("the service account has no private key")
	}
	knownSecrets.add("the service account's private key", lines[2])
}

// identities are the providers with an identity in place of a key: each vendor takes only what its token server issued.
func (w *workload) identities(tokens, vendors string, file func(name, text string) string) []object {
	const model = "identified"
	v := w.Values
	provider := func(name, dialect, path, model string, identity object) object {
		return object{
			"name": name, "dialect": dialect, "base_url": vendors + path, "models": []object{{"name": model}},
			"credentials": []object{object{"name": name}.with(identity)},
		}
	}
	aws := func(more object) object {
		return object{"aws": object{"region": "us-east-1", "service": "bedrock"}.with(more)}
	}
	const claude = "anthropic.claude-opus-4-6-v1"
	return []object{
		provider("aws-role", "bedrock", "/aws", claude, aws(object{
			"role_arn": v["role_arn"], "web_identity_token_file": file("aws.token", w.Tokens["aws"]), "sts_url": tokens,
		})),
		provider("aws-key", "bedrock", "/aws", claude, aws(object{
			"access_key_id_file": file("aws.id", v["access_key_id"]), "secret_access_key_file": file("aws.key", v["secret_access_key"]),
		})),
		provider("aws-instance", "bedrock", "/aws", claude, aws(object{"source": "instance", "metadata_url": tokens})),
		provider("aws-container", "bedrock", "/aws", claude, aws(object{
			"source": "container", "metadata_url": v["container_url"], "authorization_token_file": file("container.token", v["authorization_token"]),
		})),
		provider("gcp-account", "vertex", "/gcp/v1/projects/p/locations/global", "gemini-2.5-flash", object{"gcp": object{
			"credentials_file": file("account.json", string(w.ServiceAccount)),
		}}),
		provider("gcp-external", "vertex", "/gcp/v1/projects/p/locations/global", "claude-opus-4-6", object{"gcp": object{
			"credentials_file": file("external.json", string(w.ExternalAccount)),
		}}),
		provider("gcp-machine", "vertex", "/gcp/v1/projects/p/locations/global", "gemini-2.5-flash", object{"gcp": object{"source": "metadata", "metadata_url": tokens}}),
		provider("azure-secret", "openai", "/azure/v1", model, object{"azure": object{
			"tenant_id": v["tenant_id"], "client_id": v["client_id"], "client_secret_file": file("azure.key", v["client_secret"]), "authority": tokens,
			"scope": "https://cognitiveservices.azure.com/.default",
		}}),
		provider("azure-pod", "openai", "/azure/v1", model, object{"azure": object{
			"tenant_id": v["tenant_id"], "client_id": v["client_id"], "federated_token_file": file("azure.token", w.Tokens["entra"]), "authority": tokens,
			"scope": "https://cognitiveservices.azure.com/.default",
		}}),
		provider("azure-machine", "openai", "/foundry/v1", model, object{"azure": object{
			"source": "managed_identity", "metadata_url": tokens, "scope": "https://ai.azure.com/.default",
		}}),
		provider("keyless-openai", "openai", "/openai/v1", model, object{"oidc": object{
			"vendor": "openai", "token_file": file("openai.token", w.Tokens["openai"]), "token_url": tokens + "/oauth/token",
			"identity_provider_id": v["identity_provider_id"], "service_account_id": v["openai_service_account_id"],
		}}),
		provider("keyless-anthropic", "anthropic", "/anthropic", model, object{"oidc": object{
			"vendor": "anthropic", "token_file": file("anthropic.token", w.Tokens["anthropic"]), "token_url": tokens + "/v1/oauth/token",
			"federation_rule_id": v["federation_rule_id"], "organization_id": v["organization_id"],
			"service_account_id": v["anthropic_service_account_id"], "workspace_id": v["workspace_id"],
		}}),
	}
}

// Every kind of identity is exchanged for what its vendor takes, once for a life and ahead of its end, and anew once the
// vendor refuses it. The vendors take only credentials that the token servers have issued and that have not ended.
func TestIdentities(t *testing.T) {
	t.Parallel()
	// Its vendors take the place of the others, whose models the section of tools names.
	h := plan{name: "identities", fakes: []stack.Fake{stack.FakeIdentity, stack.FakeGuardedProvider}, tools: "tools: {}"}.start(t)
	tokens := h.fake(stack.FakeIdentity)
	const life = 6
	tokens.do(t, http.MethodPut, "/_settings", object{"lifetime_seconds": life, "skew_seconds": 60}).want(t, http.StatusNoContent)
	var w workload
	tokens.unrecorded(t, http.MethodGet, "/_material", nil).into(t, http.StatusOK, &w)
	w.addSecrets(t)
	file := func(name, text string) string {
		path := filepath.Join(h.root, "keys", "identity-"+name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	providers := w.identities(h.FakeURL(stack.FakeIdentity), h.FakeURL(stack.FakeGuardedProvider), file)
	text, err := json.Marshal(object{"providers": providers})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.root, "providers.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	h.operator(stack.Gateway).post(t, "/v1/admin/reload-policy", nil).want(t, http.StatusOK)
	service := h.service(stack.Gateway, unique("org"))
	answers := func(name string) error {
		a := service.post(t, chatPath, ask(name+"/"+modelOf(providers, name), "hello", object{"allow_substitution": false}))
		if a.status != http.StatusOK {
			return fmt.Errorf("%s: %d %s", name, a.status, shorten(a.body))
		}
		return nil
	}
	each := func(check func(name string)) {
		for _, p := range providers {
			check(fmt.Sprint(p["name"]))
		}
	}
	each(func(name string) {
		if err := answers(name); err != nil {
			t.Error(err)
		}
	})
	begun := granted(t, tokens)
	if least := len(providers) - 1; begun < least || begun > 2*len(providers) { // The static key of AWS is not exchanged.
		t.Errorf("%d exchanges for %d providers, want one each", begun, len(providers))
	}
	waitFor(t, 3*life*time.Second, "the renewal of each credential", func() error {
		each(func(name string) {
			if err := answers(name); err != nil {
				t.Error(err) // No call is refused while they are renewed.
			}
		})
		if now := granted(t, tokens); now < 2*begun {
			return fmt.Errorf("%d exchanges after %d", now, begun)
		}
		return nil
	})
	tokens.do(t, http.MethodDelete, "/_issued", nil).want(t, http.StatusNoContent)
	each(func(name string) {
		waitFor(t, waitTimeout, "another credential in place of a revoked one", func() error { return answers(name) })
	})
}

// granted returns how many exchanges have succeeded.
func granted(t *testing.T, tokens client) int {
	t.Helper()
	var count struct {
		Count int `json:"count"`
	}
	tokens.get(t, "/_count?granted=true").into(t, http.StatusOK, &count)
	return count.Count
}

// modelOf returns the model of a provider.
func modelOf(providers []object, name string) string {
	for _, p := range providers {
		if p["name"] == name {
			return fmt.Sprint(p["models"].([]object)[0]["name"])
		}
	}
	return ""
}
