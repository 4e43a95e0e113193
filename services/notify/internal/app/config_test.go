package app

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/config"
)

const (
	database = "NOTIFY_DATABASE_URL_FILE=/run/db"
	tokens   = "NOTIFY_SERVICE_TOKENS_FILE=/run/tokens"
	sealing  = "NOTIFY_ENCRYPTION_KEY_FILE=/run/key"
)

func TestLoad(t *testing.T) {
	tests := map[string]struct {
		environ []string
		err     string // part of the error, or "" for none
	}{
		"least":                   {[]string{database, tokens}, ""},
		"no database":             {[]string{tokens}, "NOTIFY_DATABASE_URL_FILE: required"},
		"no tokens":               {[]string{database}, "NOTIFY_SERVICE_TOKENS_FILE: required"},
		"auth off on loopback":    {[]string{database, "NOTIFY_AUTH_DISABLED=true", "NOTIFY_HTTP_LISTEN=127.0.0.1:1", "NOTIFY_GRPC_LISTEN=[::1]:2"}, ""},
		"auth off to the world":   {[]string{database, "NOTIFY_AUTH_DISABLED=true"}, "NOTIFY_AUTH_DISABLED: only with"},
		"auth off, half loopback": {[]string{database, "NOTIFY_AUTH_DISABLED=true", "NOTIFY_HTTP_LISTEN=127.0.0.1:1"}, "NOTIFY_AUTH_DISABLED: only with"},
		"negative grace":          {[]string{database, tokens, "NOTIFY_DRAIN_GRACE=-1s"}, "must not be negative"},
		"an address of nothing":   {[]string{database, tokens, "NOTIFY_GRPC_LISTEN=foo"}, `NOTIFY_GRPC_LISTEN: "foo": want host:port`},
		"the demo in a face":      {[]string{database, tokens, "NOTIFY_DEMO_LISTEN=127.0.0.1:8103", "NOTIFY_DEMO_TOKEN_FILE=/run/token"}, "NOTIFY_DEMO_LISTEN: must differ from NOTIFY_HTTP_LISTEN"},
		"client CAs alone":        {[]string{database, tokens, "NOTIFY_TLS_CLIENT_CA_FILE=/tls/ca.crt"}, "NOTIFY_TLS_CLIENT_CA_FILE: only with"},
		"half a pair":             {[]string{database, tokens, "NOTIFY_WEBHOOK_EGRESS_TLS=true", "NOTIFY_WEBHOOK_EGRESS_TLS_CERT_FILE=/tls/tls.crt"}, "NOTIFY_WEBHOOK_EGRESS_TLS_CERT_FILE, NOTIFY_WEBHOOK_EGRESS_TLS_KEY_FILE: want both"},
		"misspelt":                {[]string{database, tokens, "NOTIFY_WEB_PUSH_ENABELD=true"}, "did you mean NOTIFY_WEB_PUSH_ENABLED?"},
		"email without a sender":  {[]string{database, tokens, sealing, "NOTIFY_SMTP_ADDRESS=mail.example.com:587"}, "NOTIFY_EMAIL_FROM: required"},
		"email without a key":     {[]string{database, tokens, "NOTIFY_SMTP_ADDRESS=mail.example.com:587", "NOTIFY_EMAIL_FROM=a@example.com"}, "NOTIFY_ENCRYPTION_KEY_FILE: required"},
		"a user, no password":     {[]string{database, tokens, "NOTIFY_SMTP_USERNAME=x"}, "NOTIFY_SMTP_USERNAME, NOTIFY_SMTP_PASSWORD_FILE"},
		"mail in the clear":       {[]string{database, tokens, "NOTIFY_SMTP_SECURITY=off"}, "NOTIFY_SMTP_SECURITY: want"},
		"unsubscribing by http":   {[]string{database, tokens, "NOTIFY_EMAIL_UNSUBSCRIBE_URL=http://x.example"}, "NOTIFY_EMAIL_UNSUBSCRIBE_URL"},
		"certificate without TLS": {[]string{database, tokens, "NOTIFY_WEBHOOK_EGRESS_TLS_CERT_FILE=/tls/tls.crt"}, "NOTIFY_WEBHOOK_EGRESS_TLS:"},
		"egress without a token":  {[]string{database, tokens, "NOTIFY_WEBHOOK_EGRESS_ADDRESS=egress:9102"}, "NOTIFY_WEBHOOK_EGRESS_TOKEN_FILE"},
		"a short lease":           {[]string{database, tokens, "NOTIFY_LEASE=16s"}, "NOTIFY_LEASE: want"},
		"no schedule":             {[]string{database, tokens, "NOTIFY_RETRY_SCHEDULE=x"}, "NOTIFY_RETRY_SCHEDULE"},
		"an origin with a path":   {[]string{database, tokens, "NOTIFY_SLACK_ORIGINS=http://127.0.0.1:1/x"}, "NOTIFY_SLACK_ORIGINS"},
		"log shorter than keys":   {[]string{database, tokens, "NOTIFY_RETENTION=1h"}, "NOTIFY_RETENTION"},
		"no mail server":          {[]string{database, tokens, sealing, "NOTIFY_SMTP_ADDRESS=mail.example", "NOTIFY_EMAIL_FROM=a@example.com"}, "NOTIFY_SMTP_ADDRESS: want host:port"},
		"no sender":               {[]string{database, tokens, sealing, "NOTIFY_SMTP_ADDRESS=mail.example.com:587", "NOTIFY_EMAIL_FROM=Shop"}, "NOTIFY_EMAIL_FROM: want an address"},
		"a line break for a name": {[]string{database, tokens, "NOTIFY_SMTP_HELLO=a\nb"}, "NOTIFY_SMTP_HELLO: want a host name"},
		"events that never came":  {[]string{database, tokens, "NOTIFY_EVENTS_RETENTION=-1s"}, "NOTIFY_EVENTS_RETENTION: must not be negative"},
		"a past without end":      {[]string{database, tokens, "NOTIFY_WEB_PUSH_HISTORY_RETENTION=-1s"}, "NOTIFY_WEB_PUSH_HISTORY_RETENTION: must not be negative"},
		"all of email":            {[]string{database, tokens, sealing, "NOTIFY_SMTP_ADDRESS=mail.example.com:587", "NOTIFY_EMAIL_FROM=Shop <a@example.com>"}, ""},
		"a fake push service":     {[]string{database, tokens, "NOTIFY_DEMO_LISTEN=127.0.0.1:1", "NOTIFY_DEMO_TOKEN_FILE=/run/token", "NOTIFY_DEMO_PUSH_ADDRESS=127.0.0.1:2"}, ""},
		"one without a demo":      {[]string{database, tokens, "NOTIFY_DEMO_PUSH_ADDRESS=127.0.0.1:2"}, "NOTIFY_DEMO_PUSH_ADDRESS: want"},
		"one elsewhere":           {[]string{database, tokens, "NOTIFY_DEMO_LISTEN=127.0.0.1:1", "NOTIFY_DEMO_TOKEN_FILE=/run/token", "NOTIFY_DEMO_PUSH_ADDRESS=192.0.2.1:2"}, "NOTIFY_DEMO_PUSH_ADDRESS: want"},
		"bad targets":             {[]string{database, tokens, "NOTIFY_ALLOW_TARGETS=x"}, "NOTIFY_ALLOW_TARGETS"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load(tt.environ)
			switch {
			case tt.err == "" && err != nil:
				t.Error(err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("error = %v, want %q", err, tt.err)
			}
		})
	}
}

func TestPrint(t *testing.T) {
	got := commandtest.Run(root([]string{database, tokens}), "", "config", "--skip-files")
	for _, line := range []string{"NOTIFY_DATABASE_URL_FILE=/run/db\n", "NOTIFY_WEB_PUSH_ENABLED=false\n"} {
		if got.Code != 0 || !strings.Contains(got.Out, line) {
			t.Errorf("configuration lacks %q: %+v", line, got)
		}
	}
}

func TestReadmeListsTheSettings(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	const marker = "<!-- settings -->\n"
	parts := strings.Split(string(readme), marker)
	if len(parts) != 3 {
		t.Fatalf("README.md has %d settings markers, want 2", len(parts)-1)
	}
	if diff := cmp.Diff(config.Table(prefix, Config{}), strings.TrimSpace(parts[1])+"\n"); diff != "" {
		t.Errorf("settings in README.md (-want +got):\n%s", diff)
	}
}
