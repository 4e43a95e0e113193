package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/deploy/dev/demo"
	"switchyard.dev/deploy/dev/stack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUnknownCommandsGetHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"start"}, {"run", "a", "b"}, {"demo", "x"}, {"stores"}, {"stores", "--"}, {"stores", "true"}, {"check"}, {"tests"}, {"tests", "--"}, {"tests", "go", "test"}, {"setup"}, {"setup", "--kubernetes"}, {"setup", "--kubernetes", "f"}, {"setup", "-x", "d"}, {"secret"}, {"secret", "d"}} {
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

func TestRestartsAreSaidInALine(t *testing.T) {
	how := func(script string) error { return exec.CommandContext(t.Context(), "/bin/sh", "-c", script).Run() }
	for _, tt := range []struct {
		name string
		say  func(restarts)
		want string
	}{
		{"killed", func(r restarts) {
			r.Ended(stack.Exit{Name: "gateway", Result: how("kill -9 $$"), Log: "g.log", Tail: "serving\n"}, time.Second, false)
		}, "  ✘ gateway ended by itself (signal: killed) and is started again in 1s; its log: g.log\n"},
		{"its own end shows the end of the log", func(r restarts) {
			r.Ended(stack.Exit{Name: "edge", Result: how("exit 2"), Log: "e.log", Tail: "panic: no\nline 2"}, time.Second, false)
		}, "  ✘ edge ended by itself (exit status 2) and is started again in 1s; its log: e.log\n    panic: no\n    line 2\n"},
		{"once", func(r restarts) {
			r.Ended(stack.Exit{Name: "edge", Result: how("exit 2"), Log: "e.log", Tail: "panic: no"}, 2*time.Second, true)
		}, "  ✘ edge ended by itself (exit status 2) and is started again in 2s; its log: e.log\n"},
		{"ready", func(r restarts) { r.Ready("edge", 1500*time.Millisecond, nil) }, "  ✔ edge is ready again, 1500 ms after its start\n"},
		{"not ready", func(r restarts) { r.Ready("edge", time.Minute, errors.New("no answer")) }, "  ✘ edge runs again and is not ready: no answer\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := os.Create(filepath.Join(t.TempDir(), "screen"))
			if err != nil {
				t.Fatal(err)
			}
			tt.say(restarts{demo.NewScreen(file, func(string) string { return "" })})
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(file.Name()); err != nil || string(got) != tt.want {
				t.Errorf("shows %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
