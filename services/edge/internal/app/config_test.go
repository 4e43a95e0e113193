package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/testkit"
)

func TestReadmeListsTheSettings(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "<!-- settings -->\n")
	got, _, _ := strings.Cut(rest, "<!-- /settings -->")
	if want := config.Table(prefix, Config{}); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("the settings in README.md are not those of the code; put this between the markers:\n%s", want)
	}
}

func TestSettings(t *testing.T) {
	base := []string{"EDGE_DATABASE_URL_FILE=/run/db"}
	for name, tt := range map[string]struct {
		environ []string
		wrong   string
	}{
		"least":                 {base, ""},
		"no database":           {nil, "EDGE_DATABASE_URL_FILE"},
		"auth off, open":        {append(base, "EDGE_AUTH_DISABLED=true"), "EDGE_AUTH_DISABLED"},
		"auth off behind":       {append(base, "EDGE_AUTH_DISABLED=true", "EDGE_CONTROL_LISTEN=127.0.0.1:8082"), "EDGE_AUTH_DISABLED"},
		"auth off, local":       {append(base, "EDGE_AUTH_DISABLED=true", "EDGE_CONTROL_LISTEN=127.0.0.1:8082", "EDGE_LISTEN=127.0.0.1:8080"), ""},
		"metrics for all":       {append(base, "EDGE_METRICS_LISTEN=:8080"), "EDGE_METRICS_LISTEN"},
		"an address of nothing": {append(base, "EDGE_CONTROL_LISTEN=foo"), `EDGE_CONTROL_LISTEN: "foo": want host:port`},
		"roles apart":           {append(base, "EDGE_CONTROL_LISTEN=:8080"), ""},
		"a negative delay":      {append(base, "EDGE_DRAIN_DELAY=-1s"), "EDGE_DRAIN_DELAY: must not be negative"},
		"a negative grace":      {append(base, "EDGE_DRAIN_GRACE=-1s"), "EDGE_DRAIN_GRACE: must not be negative"},
		"half a pair":           {append(base, "EDGE_TLS_CERT_FILE=/tls/tls.crt"), "EDGE_TLS_CERT_FILE, EDGE_TLS_KEY_FILE: want both"},
		"half of another":       {append(base, "EDGE_UPSTREAM_TLS_KEY_FILE=/tls/tls.key"), "EDGE_UPSTREAM_TLS_CERT_FILE, EDGE_UPSTREAM_TLS_KEY_FILE: want both"},
		"proxies":               {append(base, "EDGE_TRUSTED_PROXIES=10.0.0.0/8, 2001:db8::/32"), ""},
		"a proxy's host bits":   {append(base, "EDGE_TRUSTED_PROXIES=10.1.2.3/8"), "EDGE_TRUSTED_PROXIES"},
		"proxies anywhere":      {append(base, "EDGE_TRUSTED_PROXIES=::/0"), "EDGE_TRUSTED_PROXIES: want the networks of proxies"},
		"keys never stale":      {append(base, "EDGE_KEY_STALE=0s"), "EDGE_KEY_STALE: want 5s at least"},
		"no body at all":        {append(base, "EDGE_MAX_BODY=0"), "EDGE_MAX_BODY"},
		"limits":                {append(base, "EDGE_KEY_LIMIT=600/1m/50", "EDGE_ORGANIZATION_LIMIT=6000/1m"), ""},
		"half a limit":          {append(base, "EDGE_KEY_LIMIT=600"), "EDGE_KEY_LIMIT"},
		"no room for one":       {append(base, "EDGE_BODY_MEMORY=1000"), "EDGE_BODY_MEMORY"},
		"no share for one":      {append(base, "EDGE_BODY_SHARE=1000"), "EDGE_BODY_SHARE"},
		"more than all":         {append(base, "EDGE_BODY_SHARE=67108865"), "EDGE_BODY_SHARE"},
		"no time for one":       {append(base, "EDGE_BODY_TIMEOUT=0s"), "EDGE_BODY_TIMEOUT"},
		"hours before days":     {append(base, "EDGE_USAGE_DAYS=24h"), "EDGE_USAGE_DAYS"},
		"another scheme":        {append(base, "EDGE_NOTIFY_URL=ftp://notify"), "EDGE_NOTIFY_URL"},
		"TLS for plain":         {append(base, "EDGE_NOTIFY_URL=http://notify", "EDGE_UPSTREAM_TLS_CA_FILE=/tls/ca.crt"), "EDGE_NOTIFY_URL"},
		"TLS":                   {append(base, "EDGE_NOTIFY_URL=https://notify", "EDGE_UPSTREAM_TLS_CA_FILE=/tls/ca.crt"), ""},
		"unknown setting":       {append(base, "EDGE_LISTN=:1"), "EDGE_LISTEN"},
		"secret as a value":     {append(base, "EDGE_SERVICE_TOKEN=abcdefgh"), "EDGE_SERVICE_TOKEN"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(tt.environ)
			if tt.wrong == "" {
				if err != nil {
					t.Errorf("Load = %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Fatalf("Load = %v, want an error on %q", err, tt.wrong)
			}
			testkit.NoLeak(t, "abcdefgh", err.Error())
		})
	}
}

func TestRolesSayWhatIsMissing(t *testing.T) {
	cfg, err := Load([]string{"EDGE_DATABASE_URL_FILE=/run/db"})
	if err != nil {
		t.Fatal(err)
	}
	for role, tt := range map[string]struct {
		err   error
		names []string
	}{
		"serve":   {Serve(t.Context(), cfg), []string{"EDGE_SERVICE_TOKEN_FILE", "EDGE_KEY_PEPPER_FILE", "EDGE_GATEWAY_URL"}},
		"control": {Control(t.Context(), cfg), []string{"EDGE_KEY_PEPPER_FILE", "EDGE_SERVICE_TOKENS_FILE"}},
	} {
		for _, name := range tt.names {
			if tt.err == nil || !strings.Contains(tt.err.Error(), name) {
				t.Errorf("%s: error = %v, want it to name %s", role, tt.err, name)
			}
		}
	}
}

// Control is no service: the roles need one of those that customers call.
func TestRolesNeedAService(t *testing.T) {
	base := []string{
		"EDGE_DATABASE_URL_FILE=/run/db", "EDGE_SERVICE_TOKEN_FILE=/run/token", "EDGE_KEY_PEPPER_FILE=/run/pepper", "EDGE_SERVICE_TOKENS_FILE=/run/tokens",
		"EDGE_CONTROL_TOKEN_FILE=/run/control", "EDGE_PORTAL_URL=https://portal.example",
	}
	for name, tt := range map[string]struct {
		role    string
		environ []string
		wrong   bool
	}{
		"serve with control alone":      {"serve", []string{"EDGE_CONTROL_URL=http://control:8082"}, true},
		"serve with a service":          {"serve", []string{"EDGE_CONTROL_URL=http://control:8082", "EDGE_NOTIFY_URL=http://notify:8103"}, false},
		"the portal with control alone": {"control", []string{"EDGE_CONTROL_URL=http://control:8082"}, true},
		"the portal with a service":     {"control", []string{"EDGE_WEBHOOK_EGRESS_URL=http://webhooks:8102"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := commandtest.Run(root(append(base, tt.environ...)), "", "config", "--skip-files", tt.role)
			if named := strings.Contains(got.Err, "EDGE_GATEWAY_URL, EDGE_WEBHOOK_EGRESS_URL, EDGE_NOTIFY_URL: "); named != tt.wrong || (got.Code != 0) != tt.wrong {
				t.Errorf("code %d, %q; want the rule %t", got.Code, got.Err, tt.wrong)
			}
		})
	}
}

// Both roles are the edge's program, which migrates their schema.
func TestControlNamesTheProgramThatMigrates(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"url": testkit.PostgresURL(t, nil), "pepper": strings.Repeat("p", 40)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := Load([]string{
		"EDGE_DATABASE_URL_FILE=" + filepath.Join(dir, "url"), "EDGE_KEY_PEPPER_FILE=" + filepath.Join(dir, "pepper"), "EDGE_AUTH_DISABLED=true",
		"EDGE_LISTEN=127.0.0.1:0", "EDGE_CONTROL_LISTEN=127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Control(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "run `edge migrate`") {
		t.Errorf("an empty schema: %v", err)
	}
}

func TestPrintShowsNoPassword(t *testing.T) {
	got := commandtest.Run(root([]string{"EDGE_DATABASE_URL_FILE=/run/db", "EDGE_GATEWAY_URL=http://user:hunter2hunter2@gateway:8101"}), "", "config", "--skip-files")
	if got.Code != 0 || strings.Contains(got.Out, "hunter2") || !strings.Contains(got.Out, "EDGE_LISTEN=:8080\n") {
		t.Errorf("%+v", got)
	}
}
