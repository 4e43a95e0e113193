package app

import (
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/testkit"
)

func TestCommandLine(t *testing.T) {
	commandtest.Suite(t, root, "../..", "EDGE_DATABASE_URL_FILE")
}

// Calls that the commands don't take are refused before any settings are read.
func TestWrongCalls(t *testing.T) {
	for args, want := range map[string]string{
		"keys": "create", "keys creat": "did you mean create?", "keys create --limit 600": "--limit", "keys create --organization o": "--org",
		"keys rotate": "rotate ID", "keys expire key_1": "--in and --never", "keys expire key_1 --in 1h --never": "--in and --never",
		"keys limit key_1": "limit ID", "keys limit key_1 600": "600", "keys terms key_1": "at least one flag", "keys terms key_1 --tpm 0": "--tpm",
		"keys terms key_1 --model a --all-models": "not both", "keys revoke": "revoke ID", "exports": "backfill", "exports dry-run": "DESTINATION",
		"exports backfill stripe": "--from", "exports backfill stripe --from yesterday": "--from", "control now": "no arguments",
		"healthcheck contrl": "serve, control", "config all": "serve, control",
	} {
		got := commandtest.Run(root(nil), "", strings.Fields(args)...)
		if got.Code != 2 || got.Out != "" || strings.Count(got.Err, "\n") != 1 || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %+v, want code 2 and one line with %q", args, got, want)
		}
	}
}

// Flags without a default show none.
func TestHelpOfBackfill(t *testing.T) {
	if got := commandtest.Run(root(nil), "", "exports", "backfill", "--help"); got.Code != 0 || strings.Contains(got.Out, "0001") {
		t.Errorf("%+v, want no year 1", got)
	}
}

// config checks what a role needs, and every file that a setting names.
func TestConfigChecksFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.WriteFile(t, path, text)
		return path
	}
	database := "EDGE_DATABASE_URL_FILE=" + write("db", "postgres://u:canary-password@h/d")
	good := []string{
		database, "EDGE_KEY_PEPPER_FILE=" + write("pepper", strings.Repeat("p", 32)), "EDGE_SERVICE_TOKEN_FILE=" + write("token", "t"),
		"EDGE_SERVICE_TOKENS_FILE=" + write("tokens", "tokens: [{name: op, role: operator, sha256: "+strings.Repeat("a", 64)+"}]"),
		"EDGE_GATEWAY_URL=http://gateway:8101", "EDGE_CONTROL_TOKEN_FILE=" + write("control", "t"),
	}
	for _, role := range [][]string{nil, {"serve"}, {"control"}} {
		if got := commandtest.Run(root(good), "", append([]string{"config"}, role...)...); got.Code != 0 || got.Err != "" {
			t.Errorf("%v: %+v, want no problem", role, got)
		}
	}
	for role, want := range map[string]int{"serve": 3, "control": 2} {
		commandtest.Problems(t, commandtest.Run(root([]string{database}), "", "config", role), "EDGE_", want)
	}
	missing, bad := filepath.Join(dir, "missing"), write("bad", "canary-password")
	got := commandtest.Run(root([]string{
		"EDGE_REDIS_CA_FILE=" + bad, "EDGE_DATABASE_URL_FILE=" + bad, "EDGE_REDIS_URL_FILE=" + bad, "EDGE_SERVICE_TOKENS_FILE=" + bad, "EDGE_SERVICE_TOKEN_FILE=" + missing,
		"EDGE_KEY_PEPPER_FILE=" + bad, "EDGE_CONTROL_TOKEN_FILE=" + missing, "EDGE_SLACK_SIGNING_SECRETS_FILE=" + missing,
		"EDGE_EXPORTS_FILE=" + bad, "EDGE_TLS_CERT_FILE=" + bad, "EDGE_TLS_KEY_FILE=" + missing, "EDGE_UPSTREAM_TLS_CA_FILE=" + bad,
	}), "", "config")
	commandtest.Problems(t, got, "EDGE_", 12)
	testkit.NoLeak(t, "canary-password", got.Out+got.Err)
}
