//go:build k8s

package k8s_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// With the component signing-keys webhook-egress has the file of its setting, from a Secret; without it neither.
func TestSigningKeysAreMounted(t *testing.T) {
	overlay := t.TempDir()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	here, err = filepath.Rel(overlay, here) // kustomize takes other folders by relative paths only
	if err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + here + "/overlays/production]\n" +
		"components: [" + here + "/components/signing-keys]\n"
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for of, want := range map[string]bool{overlay: true, "overlays/production": false} {
		all, _ := build(t, of)
		i := slices.IndexFunc(all, func(o object) bool { return o.Kind == "Deployment" && o.Metadata.Name == "webhook-egress" })
		if i < 0 {
			t.Fatalf("%s: no webhook-egress", of)
		}
		pod := all[i].Spec.Template.Spec
		set := slices.ContainsFunc(pod.Containers[0].Env, func(v variable) bool {
			return v.Name == "WEBHOOK_EGRESS_SIGNING_KEYS_FILE" && v.Value == "/signing-keys/keys"
		})
		mounted := slices.Contains(pod.Containers[0].VolumeMounts, mount{"signing-keys", "/signing-keys"})
		held := slices.ContainsFunc(pod.Volumes, func(v volume) bool {
			return v.Name == "signing-keys" && v.Secret != nil && v.Secret.SecretName == "webhook-signing-keys"
		})
		if set != want || mounted != want || held != want {
			t.Errorf("%s: set %t, mounted %t, from a Secret %t; want %t", of, set, mounted, held, want)
		}
	}
}
