package demo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// names lists the variables of the settings file, which are an interface.
var names = []string{
	"EDGE_URL", "EDGE_METRICS_URL", "GATEWAY_URL", "WEBHOOK_EGRESS_URL", "NOTIFY_URL", "TOOL_SERVER_URL", "RECEIVER_URL",
	"GATEWAY_GRPC", "WEBHOOK_EGRESS_GRPC", "NOTIFY_GRPC",
	"AI_KEY", "WEBHOOKS_KEY", "NOTIFICATIONS_KEY",
	"SERVICE_TOKEN", "OPERATOR_TOKEN", "SUPPORT_TOKEN",
	"ORGANIZATION_ID", "WEBHOOK_SECRET", "BYOK_SECRETS_DIR",
}

// filled returns an Env with another value in every variable.
func filled() Env {
	var e Env
	for _, v := range e.variables() {
		*v.value = "value-of/" + strings.ToLower(v.name) + "+=="
	}
	return e
}

func TestEnvFile(t *testing.T) {
	path := EnvFile(t.TempDir())
	want := filled()
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadEnv(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
}

func TestEnvFileHasExactlyItsNames(t *testing.T) {
	e := filled()
	text, err := e.render()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, "=")
		got = append(got, name)
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAShellReadsTheEnvFile(t *testing.T) {
	path := EnvFile(t.TempDir())
	e := filled()
	e.EdgeURL, e.WebhookSecret, e.BYOKSecretsDir = "http://[::1]:8080", "whsec_ab+/cd==", "/home/ann's $HOME/`id`; #x"
	if err := e.Write(path); err != nil {
		t.Fatal(err)
	}
	script := ". " + path + "; printf '%s\\n' \"$EDGE_URL\" \"$AI_KEY\" \"$WEBHOOK_SECRET\" \"$BYOK_SECRETS_DIR\""
	output, err := exec.CommandContext(t.Context(), "/bin/sh", "-euc", script).CombinedOutput()
	if err != nil {
		t.Fatalf("the shell failed: %v: %s", err, output)
	}
	if want := strings.Join([]string{e.EdgeURL, e.AIKey, e.WebhookSecret, e.BYOKSecretsDir, ""}, "\n"); string(output) != want {
		t.Errorf("a shell read %q, want %q", output, want)
	}
	if got, err := ReadEnv(path); err != nil || got != e {
		t.Errorf("ReadEnv = %v (-want +got):\n%s", err, cmp.Diff(e, got))
	}
}

func TestWriteRefusesMoreThanALine(t *testing.T) {
	for _, value := range []string{"a\nb", "a\rb", "a\x00b"} {
		e := filled()
		e.AIKey = value
		path := filepath.Join(t.TempDir(), "env")
		if err := e.Write(path); err == nil || !strings.Contains(err.Error(), "AI_KEY") || strings.Contains(err.Error(), value) {
			t.Errorf("%q: %v, want an error that names the variable and not its value", value, err)
		}
	}
}

func TestParseEnv(t *testing.T) {
	e := filled()
	complete, err := e.render()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, text, wants string
	}{
		{"comments and space", "# made by hand\n\n  " + complete, ""},
		{"more than is needed", complete + "EXTRA=1\n", ""},
		{"one is missing", strings.Replace(complete, "SUPPORT_TOKEN=", "SUPPORT=", 1), "SUPPORT_TOKEN is missing"},
		{"no setting", complete + "secretsecret\n", "a line of 12 characters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseEnv(strings.NewReader(tt.text))
			if tt.wants != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wants) || strings.Contains(err.Error(), "secretsecret") {
					t.Errorf("got %v, want %q", err, tt.wants)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
