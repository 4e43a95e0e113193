package app

import (
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/testkit"
)

func TestCommandLine(t *testing.T) {
	commandtest.Suite(t, root, "../..", "WEBHOOK_EGRESS_DATABASE_URL_FILE")
}

// config checks every file that a setting names, and lists all problems with their settings.
func TestConfigChecksFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.WriteFile(t, path, text)
		return path
	}
	good := []string{
		"WEBHOOK_EGRESS_DATABASE_URL_FILE=" + write("db", "postgres://u:canary-password@h/d"), "WEBHOOK_EGRESS_REDIS_URL_FILE=" + write("redis", "redis://h"),
		"WEBHOOK_EGRESS_SERVICE_TOKENS_FILE=" + write("tokens", "tokens: [{name: op, role: operator, sha256: "+strings.Repeat("a", 64)+"}]"),
		"WEBHOOK_EGRESS_ENCRYPTION_KEY_FILE=" + write("key", strings.Repeat("ab", 32)), "WEBHOOK_EGRESS_ORG_SECRETS_DIR=" + dir,
	}
	if got := commandtest.Run(root(good), "", "config"); got.Code != 0 || got.Err != "" {
		t.Errorf("%+v, want no problem", got)
	}
	missing, bad := filepath.Join(dir, "missing"), write("bad", "canary-password")
	got := commandtest.Run(root([]string{
		"WEBHOOK_EGRESS_REDIS_CA_FILE=" + bad, "WEBHOOK_EGRESS_DATABASE_URL_FILE=" + bad, "WEBHOOK_EGRESS_REDIS_URL_FILE=" + bad, "WEBHOOK_EGRESS_SERVICE_TOKENS_FILE=" + bad, "WEBHOOK_EGRESS_ENCRYPTION_KEY_FILE=" + bad,
		"WEBHOOK_EGRESS_TLS_CERT_FILE=" + bad, "WEBHOOK_EGRESS_TLS_KEY_FILE=" + missing, "WEBHOOK_EGRESS_TLS_CLIENT_CA_FILE=" + bad,
		"WEBHOOK_EGRESS_SIGNING_KEYS_FILE=" + bad, "WEBHOOK_EGRESS_PROXY_URL_FILE=" + bad, "WEBHOOK_EGRESS_ORG_SECRETS_DIR=" + missing,
		"WEBHOOK_EGRESS_DEFAULT_SECRET_FILE=" + missing,
	}), "", "config")
	commandtest.Problems(t, got, "WEBHOOK_EGRESS_", 12)
	testkit.NoLeak(t, "canary-password", got.Out+got.Err)
}
