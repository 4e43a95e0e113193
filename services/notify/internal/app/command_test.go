package app

import (
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/testkit"
)

func TestCommandLine(t *testing.T) {
	commandtest.Suite(t, root, "../..", "NOTIFY_DATABASE_URL_FILE")
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
		"NOTIFY_DATABASE_URL_FILE=" + write("db", "postgres://u:canary-password@h/d"), "NOTIFY_REDIS_URL_FILE=" + write("redis", "redis://h"),
		"NOTIFY_SERVICE_TOKENS_FILE=" + write("tokens", "tokens: [{name: op, role: operator, sha256: "+strings.Repeat("a", 64)+"}]"),
		"NOTIFY_ENCRYPTION_KEY_FILE=" + write("key", strings.Repeat("ab", 32)), "NOTIFY_SLACK_WEBHOOKS_DIR=" + dir,
	}
	if got := commandtest.Run(root(good), "", "config"); got.Code != 0 || got.Err != "" {
		t.Errorf("%+v, want no problem", got)
	}
	missing, bad := filepath.Join(dir, "missing"), write("bad", "canary-password")
	got := commandtest.Run(root([]string{
		"NOTIFY_REDIS_CA_FILE=" + bad, "NOTIFY_DATABASE_URL_FILE=" + bad, "NOTIFY_REDIS_URL_FILE=" + bad, "NOTIFY_SERVICE_TOKENS_FILE=" + bad, "NOTIFY_ENCRYPTION_KEY_FILE=" + bad,
		"NOTIFY_TLS_CERT_FILE=" + bad, "NOTIFY_TLS_KEY_FILE=" + missing, "NOTIFY_TLS_CLIENT_CA_FILE=" + bad,
		"NOTIFY_CA_FILE=" + bad, "NOTIFY_WEB_PUSH_VAPID_KEYS_FILE=" + bad, "NOTIFY_SLACK_WEBHOOKS_DIR=" + missing, "NOTIFY_SLACK_TOKENS_DIR=" + bad,
		"NOTIFY_SMTP_USERNAME=u", "NOTIFY_SMTP_PASSWORD_FILE=" + missing, "NOTIFY_WEBHOOK_EGRESS_TOKEN_FILE=" + missing,
		"NOTIFY_WEBHOOK_SECRETS_DIR=" + missing, "NOTIFY_DEMO_TOKEN_FILE=" + missing,
		"NOTIFY_WEBHOOK_EGRESS_TLS=true", "NOTIFY_WEBHOOK_EGRESS_TLS_CA_FILE=" + bad,
	}), "", "config")
	commandtest.Problems(t, got, "NOTIFY_", 17)
	testkit.NoLeak(t, "canary-password", got.Out+got.Err)
}
