package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUnknownCommandsGetHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"start"}, {"run", "now"}, {"demo", "x"}, {"stores"}, {"stores", "--"}, {"stores", "true"}, {"check"}, {"tests"}, {"tests", "--"}, {"tests", "go", "test"}, {"setup"}, {"setup", "--kubernetes"}, {"setup", "--kubernetes", "f"}, {"setup", "-x", "d"}, {"secret"}, {"secret", "d"}} {
		if err := run(args); !errors.Is(err, errHelp) {
			t.Errorf("dev %q: %v", args, err)
		}
	}
}

func TestSecret(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "operator-token"), []byte("the token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printSecret(&out, dir, "operator-token"); err != nil || out.String() != "the token\n" {
		t.Errorf("printed %q, %v", out.String(), err)
	}
	for _, name := range []string{"operator", "../" + filepath.Base(dir) + "/operator-token", filepath.Join(dir, "operator-token"), "."} {
		if err := printSecret(&out, dir, name); err == nil || !strings.Contains(err.Error(), "secret: ") {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
}

func TestStoresRunsACommandWithServers(t *testing.T) {
	tests := []struct {
		name, script string
		want         error
	}{
		{"both servers are named", `test "${SWITCHYARD_TEST_DATABASE_URL#postgres://}" != "" && test "${SWITCHYARD_TEST_REDIS_URL#redis://}" != ""`, nil},
		{"its exit status is ours", "exit 7", exitError(7)},
		{"killed by a signal", "kill -9 $$", exitError(1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := runStores(t.Context(), []string{"/bin/sh", "-euc", tt.script})
			if err != nil && strings.Contains(err.Error(), "no Postgres is installed") {
				t.Skip(err)
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestBuiltByGoRun(t *testing.T) {
	for program, want := range map[string]bool{
		"/tmp/go-build2137005868/b001/exe/dev": true,
		"/srv/switchyard/.local/bin/dev":       false,
	} {
		if got := builtByGoRun(program); got != want {
			t.Errorf("builtByGoRun(%s) = %t", program, got)
		}
	}
}

func TestBuildOmitsCloudLibrariesUnlessTheyAreUsed(t *testing.T) {
	for _, tt := range []struct {
		name, managers, providers string
		want                      []string
	}{
		{"no secret manager", "", "providers: [{name: azure, credentials: [{name: a, key_file: a}, {name: b, oidc: {vendor: openai}}]}]", []string{"-tags=nocloud"}},
		{"a secret manager", "awssecretsmanager://byok/{organization}/", "", nil},
		{"an identity", "", "providers:\n  - name: bedrock\n    credentials:\n      - name: role\n        aws: {source: instance}\n", nil},
		{"an identity in JSON", "", `{"providers":[{"credentials":[{"name":"a","gcp": {"source":"metadata"}}]}]}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "providers")
			if err := os.WriteFile(file, []byte(tt.providers), 0o600); err != nil {
				t.Fatal(err)
			}
			got := buildFlags(func(name string) string {
				return map[string]string{"GATEWAY_BYOK_SECRET_MANAGERS": tt.managers, "GATEWAY_EXTRA_PROVIDERS_FILE": file}[name]
			})
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
