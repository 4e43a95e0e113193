//go:build k8s

package k8s_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The overlay of the README sets a setting of a service and gives it a file, and a change of either rolls the pods: the
// names of the objects have the digest of what is in them.
func TestOverlaysGiveSettingsAndFiles(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(readme), "    # my-cluster/kustomization.yaml\n")
	text, _, ended := strings.Cut(text, "\n\n")
	if !found || !ended {
		t.Fatal("the README has no my-cluster/kustomization.yaml")
	}
	own := t.TempDir()
	production, err := filepath.Abs("overlays/production")
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(own, production)
	if err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(strings.ReplaceAll("\n"+text, "\n    ", "\n"), "../deploy/k8s/overlays/production", relative, 1)
	for name, text := range map[string]string{"kustomization.yaml": text, "policy.yaml": "version: 1\n", "vendors.yaml": "providers: []\n"} {
		if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), tool(t, "KUSTOMIZE"), "build", own).CombinedOutput()
	if err != nil {
		t.Fatalf("kustomize build: %v\n%s", err, out)
	}
	for _, want := range []string{
		"GATEWAY_POLICY_FILE: /config/policy.yaml", "policy.yaml: |", "name: gateway-settings-", "name: gateway-config-", "name: edge-settings-",
		"image: registry.acme.example/switchyard/gateway@sha256:", "host: ai.acme.example",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the overlay has no %q", want)
		}
	}
	if strings.Contains(string(out), "name: gateway-config\n") {
		t.Error("a pod mounts a ConfigMap by its name without the digest")
	}
}
