package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/testkit"
)

// A gateway reads keygen's key, and that key opens seal's output.
func TestByokCommand(t *testing.T) {
	const key = "sk-canary-command-0123456789"
	dir := t.TempDir()
	for _, kem := range []string{sealing.X25519, sealing.MLKEM768X25519} {
		made := commandtest.Run(root(nil), "", "byok", "keygen", "-kem", kem) // As releases before took it.
		if made.Code != 0 {
			t.Fatal(made.Err)
		}
		testkit.WriteFile(t, filepath.Join(dir, "a.key"), made.Out)
		keys, err := sealing.NewKeys(dir)
		if err != nil {
			t.Fatal(err)
		}
		current, err := keys.Current()
		if err != nil {
			t.Fatal(err)
		}
		public, _ := json.Marshal(publicKey{current.ID, current.Key, current.KEM, current.KDF, current.AEAD, sealing.InfoTemplate})
		gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/byok/sealing-key" || r.Header.Get("Authorization") != "Bearer token" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			_, _ = w.Write(public)
		}))
		t.Cleanup(gateway.Close)
		token, file := filepath.Join(dir, "token"), filepath.Join(dir, "public.json")
		for path, text := range map[string]string{token: "token\n", file: string(public), filepath.Join(dir, "provider"): key + "\n"} {
			testkit.WriteFile(t, path, text)
		}
		for _, args := range [][]string{
			{"--gateway", gateway.URL, "--token-file", token}, {"--public-key", file}, {"--public-key", file, "--key-file", filepath.Join(dir, "provider")},
		} {
			out := commandtest.Run(root(nil), key+"\n", append([]string{"byok", "seal", "--organization", "acme", "--provider", "openai"}, args...)...)
			if out.Code != 0 {
				t.Fatal(out.Err)
			}
			var body struct {
				OrganizationID string `json:"organization_id"`
				Provider       string `json:"provider"`
				Sealed         struct {
					KeyID      string `json:"key_id"`
					Ciphertext []byte `json:"ciphertext"`
				} `json:"sealed"`
			}
			if err := json.Unmarshal([]byte(out.Out), &body); err != nil {
				t.Fatal(err)
			}
			opened, err := keys.Open(body.Sealed.KeyID, body.OrganizationID, body.Provider, body.Sealed.Ciphertext)
			if err != nil || opened.Reveal() != key {
				t.Errorf("%v: %v", args, err)
			}
			testkit.NoLeak(t, key, out.Out+out.Err)
		}
		if got := commandtest.Run(root(nil), key, "byok", "seal", "--organization", "acme", "--provider", "openai", "--gateway", gateway.URL); got.Code != 1 {
			t.Errorf("of a gateway that refuses: %+v", got)
		}
	}
}

func TestByokCommandRefuses(t *testing.T) {
	const key = "sk-canary-argument-0123456789"
	for _, args := range [][]string{
		nil,
		{"open"},
		{"seal"},
		{"seal", "--organization", "acme", "--provider", "openai", "--public-key", "x", key},
		{"seal", "--key", key},
		{"keygen", "--kem", "rsa"},
		{"keygen", key},
		{"seal", "--organization", "acme", "--provider", "openai"},
	} {
		got := commandtest.Run(root(nil), "", append([]string{"byok"}, args...)...)
		if got.Code == 0 {
			t.Errorf("%v is allowed", args)
		}
		testkit.NoLeak(t, key, got.Out+got.Err)
	}
}
