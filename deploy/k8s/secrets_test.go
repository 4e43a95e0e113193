//go:build k8s

package k8s_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/deploy/dev/devtest"
	"switchyard.dev/deploy/dev/stack"
)

// certificates end the names of the Secrets that cert-manager makes.
const certificates = "-mtls"

// `dev setup --kubernetes` makes every Secret that pods of an overlay need, with every file that their settings name, and
// an API server would accept them.
func TestSetupMakesEverySecret(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "cluster.yaml")
	const all = "database: postgres://postgres.stores:5432/switchyard\nredis: redis://redis.stores:6379\n" +
		"provider_keys: {openai.key: a.key}\nwebhook_secrets: {acme: a.key}\n" +
		"secrets: {notify-slack-tokens: {acme: a.key}, notify-slack-webhooks: {acme: a.key}, gateway-byok-secrets: {acme.openai.key: a.key}}\n"
	for path, text := range map[string]string{file: all, filepath.Join(dir, "a.key"): "of another"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cluster, err := stack.ReadCluster(file)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := cluster.WriteSecrets(filepath.Join(dir, "kept"), &text); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "secrets.yaml")
	if err := os.WriteFile(made, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), devtest.Tool(t, "KUBECTL_VALIDATE"), "--version", "1.30", made).CombinedOutput(); err != nil {
		t.Errorf("kubectl validate: %v\n%s", err, out)
	}
	secrets := make(map[string]map[string]string)
	for decoder := yaml.NewDecoder(&text); ; {
		var s struct {
			Metadata struct{ Name string }
			Data     map[string]string `yaml:"stringData"`
		}
		if decoder.Decode(&s) != nil {
			break
		}
		secrets[s.Metadata.Name] = s.Data
	}
	for _, overlay := range overlays(t) {
		all, _ := build(t, overlay)
		for _, o := range all {
			if o.hasPods() {
				checkSecrets(t, overlay, o, secrets)
			}
		}
	}
}

func checkSecrets(t *testing.T, overlay string, o object, secrets map[string]map[string]string) {
	t.Helper()
	paths := make(map[string]string) // of mounts, by volume
	c := o.Spec.Template.Spec.Containers[0]
	for _, m := range c.VolumeMounts {
		paths[m.Name] = m.MountPath + "/"
	}
	for _, v := range o.Spec.Template.Spec.Volumes {
		if v.Secret == nil || strings.HasSuffix(v.Secret.SecretName, certificates) {
			continue
		}
		data, ok := secrets[v.Secret.SecretName]
		if !ok {
			t.Errorf("%s %s: no Secret %s", overlay, o.Metadata.Name, v.Secret.SecretName)
			continue
		}
		for _, e := range c.Env {
			if name, inside := strings.CutPrefix(e.Value, paths[v.Name]); inside && data[name] == "" {
				t.Errorf("%s %s: the Secret %s has no %s, which %s names", overlay, o.Metadata.Name, v.Secret.SecretName, name, e.Name)
			}
		}
	}
}
