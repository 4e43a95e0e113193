package stack

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// cluster writes a file of a cluster, with a vendor's key beside it.
func cluster(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"cluster.yaml": text, "openai.key": "sk-of-the-vendor\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cluster.yaml")
}

// The Secrets hold URLs of roles that can log in, and a second run prints the same.
func TestSetupCluster(t *testing.T) {
	administrator := postgres(t)
	_, host, _ := strings.Cut(administrator, "@")
	c, err := ReadCluster(cluster(t, "database: postgres://"+host+"\nredis: rediss://u:p@redis.stores:6379\nprovider_keys: {openai.key: openai.key}\nservice_tokens: [shop]\n"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := SetupCluster(t.Context(), dir, administrator, c, out); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Error("a second run prints other Secrets")
	}
	if err := SetupCluster(t.Context(), t.TempDir(), administrator, c, &second); err == nil || !strings.Contains(err.Error(), "the role edge exists") {
		t.Errorf("another folder: %v, want a refusal to change the passwords", err)
	}
	secrets := make(map[string]map[string]string)
	for decoder := yaml.NewDecoder(&first); ; {
		var m manifest
		if decoder.Decode(&m) != nil {
			break
		}
		if m.Kind != "Secret" || m.Metadata["namespace"] != "switchyard" {
			t.Errorf("%s %v", m.Kind, m.Metadata)
		}
		secrets[m.Metadata["name"]] = m.Data
	}
	for _, s := range Services {
		data := secrets[string(s)]
		if data["redis-url"] != "rediss://u:p@redis.stores:6379" {
			t.Errorf("%s: Redis at %q", s, data["redis-url"])
		}
		var schema string
		if err := connect(t, data["database-url"]).QueryRow(t.Context(), "SELECT current_schema()").Scan(&schema); err != nil || schema != s.schema() {
			t.Errorf("%s: schema %q, %v", s, schema, err)
		}
	}
	if key := secrets["gateway-fleet-keys"]["openai.key"]; key != "sk-of-the-vendor" {
		t.Errorf("the vendor's key is %q", key)
	}
	shop, err := os.ReadFile(filepath.Join(dir, "service-tokens", "shop"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(bytes.TrimSpace(shop))
	line := "{name: shop, role: service, sha256: " + hex.EncodeToString(sum[:]) + "}"
	for _, s := range Services {
		if tokens := secrets[string(s)]["tokens.yaml"]; !strings.Contains(tokens, line) || !strings.Contains(tokens, "name: operator,") {
			t.Errorf("%s: tokens without %s:\n%s", s, line, tokens)
		}
	}
	if _, made := secrets["webhook-organization-secrets"]; made {
		t.Error("a Secret without any key")
	}
}

func TestReadClusterRefuses(t *testing.T) {
	const redis = "redis: redis://r:6379\n"
	const stores = "database: postgres://h/d\n" + redis
	for text, want := range map[string]string{
		"": "EOF", redis: "database: want", "database: postgres://u:p@h/d\n" + redis: "without a user", "database: postgres://h\n" + redis: "database: want",
		"database: postgres://h/d\nredis: r:6379\n": "redis: want", "namespaces: x\n": "field namespaces not found",
		stores + "service_tokens: [edge]\n": "service_tokens[0]: want", stores + "service_tokens: [a, a]\n": "service_tokens[1]: want",
		stores + "service_tokens: [../a]\n":                       "service_tokens[0]: want",
		stores + "provider_keys: {a/b: openai.key}\n":             "provider_keys: a key has letters",
		stores + "secrets: {notify: {\"smtp password\": none}}\n": "secrets.notify: a key has letters",
	} {
		if _, err := ReadCluster(cluster(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"webhook_secrets: {acme: none}":                 "webhook_secrets.acme: open ",
		"secrets: {notify: {smtp-password: none}}":      "secrets.notify.smtp-password: open ",
		"secrets: {notify: {smtp-password: /dev/zero}}": "secrets.notify.smtp-password: /dev/zero: larger than",
		"secrets: {notify: {redis-url: openai.key}}":    "secrets.notify.redis-url: setup makes this key itself",
		"secrets: {notify-slack: {acme: openai.key}}":   "secrets.notify-slack: want one that pods mount: edge, ",
		"secrets: {gateway-fleet-keys: {k.key: none}}":  "secrets.gateway-fleet-keys.k.key: open ",
	} {
		c, err := ReadCluster(cluster(t, stores+text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.WriteSecrets(t.TempDir(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
