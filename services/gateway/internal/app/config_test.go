package app

import (
	"flag"
	"os"
	"strings"
	"testing"

	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/config"
)

var update = flag.Bool("update", false, "write the README's settings table")

var needed = []string{"GATEWAY_DATABASE_URL_FILE=/s/db", "GATEWAY_SERVICE_TOKENS_FILE=/s/tokens"}

func TestLoad(t *testing.T) {
	cases := []struct {
		name    string
		environ []string
		want    string // in the error; empty for none
	}{
		{"what is needed", needed, ""},
		{"nothing", nil, "GATEWAY_DATABASE_URL_FILE: required"},
		{"no tokens", needed[:1], "GATEWAY_SERVICE_TOKENS_FILE: required"},
		{"no authentication on all addresses", append(needed, "GATEWAY_AUTH_DISABLED=true"), "on loopback"},
		{"no authentication on loopback", append(needed[:1:1], "GATEWAY_AUTH_DISABLED=true", "GATEWAY_HTTP_LISTEN=127.0.0.1:1", "GATEWAY_GRPC_LISTEN=[::1]:2"), ""},
		{"a call without a bound", append(needed, "GATEWAY_TOTAL_TIMEOUT=0s"), "GATEWAY_TOTAL_TIMEOUT: must be positive"},
		{"a ledger mode that is none", append(needed, "GATEWAY_LEDGER_MODE=sync"), "GATEWAY_LEDGER_MODE: want auto, synced, committed or async"},
		{"a spool without room", append(needed, "GATEWAY_SPOOL_LIMIT=0"), "GATEWAY_SPOOL_LIMIT: must be above zero"},
		{"a denied network with host bits", append(needed, "GATEWAY_DENY_PREFIXES=10.1.2.3/8"), "GATEWAY_DENY_PREFIXES"},
		{"pages of approvals", append(needed, "GATEWAY_MCP_APPROVAL_URL=https://console.example/approvals?ref={ref}"), ""},
		{"one page for all approvals", append(needed, "GATEWAY_MCP_APPROVAL_URL=https://console.example/"), "GATEWAY_MCP_APPROVAL_URL: want a URL"},
		{"pages of any host", append(needed, "GATEWAY_MCP_APPROVAL_URL=https://{ref}.example/"), "GATEWAY_MCP_APPROVAL_URL: want a URL"},
		{"pages of a script", append(needed, "GATEWAY_MCP_APPROVAL_URL=javascript:{ref}"), "GATEWAY_MCP_APPROVAL_URL: want a URL"},
		{"a negative drain", append(needed, "GATEWAY_DRAIN_GRACE=-1s"), "must not be negative"},
		{"an address without a port", append(needed, "GATEWAY_HTTP_LISTEN=foo"), `GATEWAY_HTTP_LISTEN: "foo": want host:port`},
		{"one address for both faces", append(needed, "GATEWAY_HTTP_LISTEN=:9101"), "GATEWAY_GRPC_LISTEN: must differ from GATEWAY_HTTP_LISTEN"},
		{"client CAs without a certificate", append(needed, "GATEWAY_TLS_CLIENT_CA_FILE=/tls/ca.crt"), "GATEWAY_TLS_CLIENT_CA_FILE: only with GATEWAY_TLS_CERT_FILE"},
		{"half a pair for webhook egress", append(needed, "GATEWAY_EVENTS_EGRESS_TLS=true", "GATEWAY_EVENTS_EGRESS_TLS_KEY_FILE=/tls/tls.key"), "GATEWAY_EVENTS_EGRESS_TLS_CERT_FILE, GATEWAY_EVENTS_EGRESS_TLS_KEY_FILE: want both"},
		{"a setting that is none", append(needed, "GATEWAY_PRICE_FILE=x"), "GATEWAY_PRICES_FILE"},
		{"a secret in place of its file", append(needed, "GATEWAY_DATABASE_URL_FILE=postgres://u:p@h/d"), "not the secret"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(c.environ)
			switch {
			case c.want == "":
				if err != nil {
					t.Errorf("error %v, want none", err)
				}
			case err == nil || !strings.Contains(err.Error(), c.want):
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestPrint(t *testing.T) {
	if got := commandtest.Run(root(needed), "", "config", "--skip-files"); got.Code != 0 || !strings.Contains(got.Out, "GATEWAY_TOTAL_TIMEOUT=10m0s\n") {
		t.Errorf("%+v", got)
	}
}

// The README's table of settings is generated from the settings.
func TestREADME(t *testing.T) {
	const path, begin, end = "../../README.md", "<!-- settings -->\n", "<!-- /settings -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), begin)
	table, tail, found := strings.Cut(rest, end)
	if !found {
		t.Fatal("the README has no place for the table")
	}
	want := config.Table(prefix, Config{})
	if *update {
		if err := os.WriteFile(path, []byte(head+begin+want+end+tail), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Error("the table is out of date; run: go test ./internal/app -run README -update")
	}
}
