package app

import (
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/testkit"
)

func TestCommandLine(t *testing.T) {
	commandtest.Suite(t, root, "../..", "GATEWAY_DATABASE_URL_FILE")
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
		"GATEWAY_DATABASE_URL_FILE=" + write("db", "postgres://u:canary-password@h/d"), "GATEWAY_REDIS_URL_FILE=" + write("redis", "redis://h"),
		"GATEWAY_SERVICE_TOKENS_FILE=" + write("tokens", "tokens: [{name: op, role: operator, sha256: "+strings.Repeat("a", 64)+"}]"),
		"GATEWAY_SPOOL_DIR=" + filepath.Join(dir, "spool"), "GATEWAY_POLICY_FILE=" + write("policy.yaml", checkedPolicy),
		"GATEWAY_EXTRA_PROVIDERS_FILE=" + write("extra.yaml", "providers:\n  - {name: groq, dialect: openai, base_url: https://groq.example, models: [m]}\n"),
		"GATEWAY_CACHE_KEY_FILE=" + write("cache", strings.Repeat("k", 32)), "GATEWAY_TRACE_KEYS_FILE=" + filepath.Join(dir, "absent"),
	}
	if got := commandtest.Run(root(good), "", "config"); got.Code != 0 || got.Err != "" {
		t.Errorf("%+v, want no problem", got)
	}
	for name, tt := range map[string]struct{ setting, want string }{
		"CAs of further providers": {
			"GATEWAY_EXTRA_PROVIDERS_FILE=" + write("cas.yaml", "providers:\n  - {name: x, dialect: openai, base_url: https://x.example, models: [m], ca_file: missing.pem}\n"+
				"  - {name: y, dialect: openai, base_url: https://y.example, models: [m], ca_file: policy.yaml}\n"),
			"GATEWAY_EXTRA_PROVIDERS_FILE: provider x: ca_file: open " + filepath.Join(dir, "missing.pem") + ": no such file or directory\n" +
				"provider y: ca_file: " + filepath.Join(dir, "policy.yaml") + " holds no certificate in PEM\n",
		},
		"CAs of the policy": {
			"GATEWAY_POLICY_FILE=" + write("own.yaml", checkedPolicy+"    ca_file: missing.pem\n"),
			"GATEWAY_POLICY_FILE: provider own: ca_file: open " + filepath.Join(dir, "missing.pem") + ": no such file or directory\n",
		},
		"a policy without an end": {"GATEWAY_POLICY_FILE=/dev/zero", "GATEWAY_POLICY_FILE: policy: /dev/zero: larger than 8388608 bytes\n"},
		"tokens without an end": {
			"GATEWAY_SERVICE_TOKENS_FILE=/dev/zero",
			"GATEWAY_SERVICE_TOKENS_FILE: read service tokens: /dev/zero: larger than 8388608 bytes\n",
		},
		"CAs without an end": {
			"GATEWAY_EVENTS_EGRESS_TLS_CA_FILE=/dev/zero", "GATEWAY_EVENTS_EGRESS_TLS: must be true where its files are set\n" +
				"GATEWAY_EVENTS_EGRESS_TLS_CA_FILE: TLS CA: /dev/zero: larger than 8388608 bytes\n",
		},
		"no prices": {"GATEWAY_PRICES_FILE=" + write("empty.yaml", ""), "GATEWAY_PRICES_FILE: prices: the file is empty; want providers, or `providers: []` for none\n"},
	} {
		if got := commandtest.Run(root(append(good, tt.setting)), "", "config"); got.Code != 1 || got.Err != "gateway: settings:\n"+tt.want {
			t.Errorf("%s: %+v, want %s", name, got, tt.want)
		}
	}
	missing, bad := filepath.Join(dir, "missing"), write("bad", "canary-password")
	folder := t.TempDir()
	got := commandtest.Run(root([]string{
		"GATEWAY_REDIS_CA_FILE=" + bad, "GATEWAY_DATABASE_URL_FILE=" + bad, "GATEWAY_REDIS_URL_FILE=" + bad, "GATEWAY_SERVICE_TOKENS_FILE=" + bad,
		"GATEWAY_POLICY_FILE=" + bad, "GATEWAY_EXTRA_PROVIDERS_FILE=" + missing, "GATEWAY_PRICES_FILE=" + bad, "GATEWAY_CATALOG_FILE=" + bad,
		"GATEWAY_FLEET_KEYS_DIR=" + missing, "GATEWAY_FINGERPRINT_KEY_FILE=" + missing, "GATEWAY_SEALING_KEYS_DIR=" + missing,
		"GATEWAY_BYOK_SECRETS_DIR=" + bad, "GATEWAY_CACHE_KEY_FILE=" + bad, "GATEWAY_TRACE_KEYS_FILE=" + bad, "GATEWAY_SPOOL_DIR=" + bad,
		"GATEWAY_GOLDEN_SET_FILE=" + bad, "GATEWAY_PROXY_URL_FILE=" + bad, "GATEWAY_EVENTS_EGRESS_TOKEN_FILE=" + folder,
		"GATEWAY_TLS_CERT_FILE=" + bad, "GATEWAY_TLS_KEY_FILE=" + missing, "GATEWAY_TLS_CLIENT_CA_FILE=" + bad,
		"GATEWAY_EVENTS_EGRESS_TLS=true", "GATEWAY_EVENTS_EGRESS_TLS_CA_FILE=" + missing,
	}), "", "config")
	commandtest.Problems(t, got, "GATEWAY_", 22)
	testkit.NoLeak(t, "canary-password", got.Out+got.Err)
	got = commandtest.Run(root([]string{"GATEWAY_SERVICE_TOKENS_FILE=" + missing, "GATEWAY_BACKGROUND=many"}), "", "config")
	commandtest.Problems(t, got, "GATEWAY_", 3)
	commandtest.Problems(t, commandtest.Run(root(nil), "", "config"), "GATEWAY_", 2)
}
