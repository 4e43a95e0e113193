package app

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/testkit"
)

func environWith(changes ...string) []string {
	return append([]string{
		"WEBHOOK_EGRESS_DATABASE_URL_FILE=/run/db", "WEBHOOK_EGRESS_SERVICE_TOKENS_FILE=/run/tokens", "UNRELATED=x",
	}, changes...)
}

func TestReadmeListsTheSettings(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)<!-- settings -->\n(.*)<!-- settings -->`).FindSubmatch(text)
	want := config.Table("WEBHOOK_EGRESS", Config{})
	if found == nil || string(found[1]) != want {
		t.Errorf("the table between the <!-- settings --> marks of README.md should be:\n%s", want)
	}
}

func TestDefaultsAreValid(t *testing.T) {
	got := commandtest.Run(root(environWith()), "", "config", "--skip-files")
	for _, line := range []string{
		"WEBHOOK_EGRESS_HTTP_LISTEN=:8102", "WEBHOOK_EGRESS_DEFAULT_ORGANIZATION_ID=default", "WEBHOOK_EGRESS_REQUIRE_HTTPS=true",
		"WEBHOOK_EGRESS_MAX_ATTEMPTS=12",
	} {
		if got.Code != 0 || !strings.Contains(got.Out, line+"\n") {
			t.Errorf("%s is not in %+v", line, got)
		}
	}
}

func TestBadSettings(t *testing.T) {
	for name, tt := range map[string]struct{ set, want string }{
		"an address that is none": {"WEBHOOK_EGRESS_HTTP_LISTEN=127.0.0.1:99999", "WEBHOOK_EGRESS_HTTP_LISTEN: \"127.0.0.1:99999\": want a port"},
		"one for both faces":      {"WEBHOOK_EGRESS_GRPC_LISTEN=:8102", "WEBHOOK_EGRESS_GRPC_LISTEN: must differ from WEBHOOK_EGRESS_HTTP_LISTEN"},
		"client CAs alone":        {"WEBHOOK_EGRESS_TLS_CLIENT_CA_FILE=/tls/ca.crt", "WEBHOOK_EGRESS_TLS_CLIENT_CA_FILE: only with"},
		"a negative delay":        {"WEBHOOK_EGRESS_DRAIN_DELAY=-1s", "WEBHOOK_EGRESS_DRAIN_DELAY: must not be negative"},
		"a negative grace":        {"WEBHOOK_EGRESS_DRAIN_GRACE=-1s", "WEBHOOK_EGRESS_DRAIN_GRACE: must not be negative"},
		"open without auth":       {"WEBHOOK_EGRESS_AUTH_DISABLED=true", "WEBHOOK_EGRESS_AUTH_DISABLED"},
		"no tokens":               {"WEBHOOK_EGRESS_SERVICE_TOKENS_FILE=", "WEBHOOK_EGRESS_SERVICE_TOKENS_FILE: required, but not set"},
		"lease within a request":  {"WEBHOOK_EGRESS_LEASE=19s", "WEBHOOK_EGRESS_LEASE"},
		"long requests":           {"WEBHOOK_EGRESS_REQUEST_TIMEOUT=31s", "WEBHOOK_EGRESS_REQUEST_TIMEOUT"},
		"many attempts":           {"WEBHOOK_EGRESS_MAX_ATTEMPTS=21", "WEBHOOK_EGRESS_MAX_ATTEMPTS"},
		"a day and more":          {"WEBHOOK_EGRESS_RETRY_SCHEDULE=5s,25h", "WEBHOOK_EGRESS_RETRY_SCHEDULE"},
		"nothing in flight":       {"WEBHOOK_EGRESS_MAX_IN_FLIGHT=0", "WEBHOOK_EGRESS_MAX_IN_FLIGHT"},
		"unknown setting":         {"WEBHOOK_EGRESS_LEASES=1s", "WEBHOOK_EGRESS_LEASES"},
		"secret as a path":        {"WEBHOOK_EGRESS_DATABASE_URL_FILE=postgres://u:canary-password@h/d", "WEBHOOK_EGRESS_DATABASE_URL_FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(environWith(tt.set))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("err = %v", err)
			}
			testkit.NoLeak(t, "canary-password", err.Error())
		})
	}
}
