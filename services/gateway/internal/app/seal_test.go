package app

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/platform/testkit"
)

// A gateway reads keygen's key, and that key opens seal's output.
func TestByokCommand(t *testing.T) {
	const key = "sk-canary-command-0123456789"
	dir := t.TempDir()
	for _, kem := range []string{sealing.X25519, sealing.MLKEM768X25519} {
		var made bytes.Buffer
		if err := Byok(t.Context(), []string{"keygen", "-kem", kem}, nil, &made); err != nil {
			t.Fatal(err)
		}
		testkit.WriteFile(t, filepath.Join(dir, "a.key"), made.String())
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
			{"-gateway", gateway.URL, "-token-file", token}, {"-public-key", file}, {"-public-key", file, "-key-file", filepath.Join(dir, "provider")},
		} {
			var out bytes.Buffer
			args = append([]string{"seal", "-organization", "acme", "-provider", "openai"}, args...)
			if err := Byok(t.Context(), args, strings.NewReader(key+"\n"), &out); err != nil {
				t.Fatal(err)
			}
			var body struct {
				OrganizationID string `json:"organization_id"`
				Provider       string `json:"provider"`
				Sealed         struct {
					KeyID      string `json:"key_id"`
					Ciphertext []byte `json:"ciphertext"`
				} `json:"sealed"`
			}
			if err := json.Unmarshal(out.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			opened, err := keys.Open(body.Sealed.KeyID, body.OrganizationID, body.Provider, body.Sealed.Ciphertext)
			if err != nil || opened.Reveal() != key {
				t.Errorf("%v: %v", args, err)
			}
			testkit.NoLeak(t, key, out.String())
		}
		if err := Byok(t.Context(), []string{"seal", "-organization", "acme", "-provider", "openai", "-gateway", gateway.URL}, strings.NewReader(key), &bytes.Buffer{}); err == nil {
			t.Error("a gateway that refuses gave a key")
		}
	}
}

func TestByokCommandRefuses(t *testing.T) {
	const key = "sk-canary-argument-0123456789"
	for _, args := range [][]string{
		nil,
		{"open"},
		{"seal"},
		{"seal", "-organization", "acme", "-provider", "openai", "-public-key", "x", key},
		{"seal", "-key", key},
		{"keygen", "-kem", "rsa"},
		{"keygen", key},
		{"seal", "-organization", "acme", "-provider", "openai"},
	} {
		err := Byok(t.Context(), args, strings.NewReader(""), &bytes.Buffer{})
		if err == nil {
			t.Errorf("%v is allowed", args)
			continue
		}
		testkit.NoLeak(t, key, err.Error())
	}
}
