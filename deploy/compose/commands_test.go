//go:build e2e

package compose_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

// commented matches a command in a remark of the compose file.
var commented = regexp.MustCompile(`(?m)^#   ((?:\w+=\S+ )*)docker compose (.*)$`)

// The commands in the remarks name files, services and commands that exist.
func TestCommandsOfTheRemarks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docker-compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	vendors := t.TempDir()
	seen := 0
	for _, found := range commented.FindAllStringSubmatch(string(text), -1) {
		seen++
		t.Run(found[2], func(t *testing.T) {
			variables := strings.Fields(strings.ReplaceAll(found[1], "$PWD/vendors", vendors))
			files, words := options(t, strings.Fields(found[2]))
			project := loadWith(t, variables, files...)
			service, err := project.GetService(words[1])
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case words[0] == "up" && len(files) == 2:
				wantVendors(t, service, vendors)
			case words[0] == "run" && service.Name == "setup":
				wantSecret(t, words[2:])
			case words[0] == "run" && service.Name == "edge":
				readme, err := os.ReadFile(filepath.Join(root, "services/edge/README.md"))
				if err != nil || !strings.Contains(string(readme), "edge "+strings.Join(words[2:4], " ")) {
					t.Errorf("the edge's README has no %q (%v)", words[2:4], err)
				}
			default:
				t.Errorf("no check of %q", words)
			}
		})
	}
	if seen != 3 {
		t.Errorf("%d commands in the remarks, want 3", seen)
	}
}

// options splits the words of a compose command into its files and what is neither option nor file.
func options(t *testing.T, command []string) (files, words []string) {
	t.Helper()
	for i, word := range command {
		switch {
		case i > 0 && command[i-1] == "-f":
			files = append(files, word)
		case len(words) > 1 || !strings.HasPrefix(word, "-"): // behind the service all is the program's
			words = append(words, word)
		}
	}
	if files == nil {
		files = []string{"docker-compose.yaml"}
	}
	if len(words) < 2 {
		t.Fatalf("%q has no command and service", command)
	}
	return files, words
}

// wantVendors checks that the gateway reads its vendors from the folder.
func wantVendors(t *testing.T, gateway types.ServiceConfig, folder string) {
	t.Helper()
	if !slices.ContainsFunc(gateway.Volumes, func(v types.ServiceVolumeConfig) bool {
		return v.Source == folder && v.Target == "/vendors" && v.ReadOnly
	}) {
		t.Errorf("%s does not mount %s: %+v", gateway.Name, folder, gateway.Volumes)
	}
	if file := gateway.Environment["GATEWAY_EXTRA_PROVIDERS_FILE"]; file == nil || *file != "/vendors/vendors.yaml" {
		t.Errorf("%s reads %v", gateway.Name, file)
	}
	if !slices.ContainsFunc(gateway.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == "/secrets" }) {
		t.Error("the addition drops the volumes of the compose file")
	}
}

// wantSecret runs a command of setup that prints a secret which setup makes.
func wantSecret(t *testing.T, command []string) {
	t.Helper()
	made, err := os.ReadFile(filepath.Join(root, "deploy/dev/stack/secret.go"))
	if err != nil || !strings.Contains(string(made), `"`+command[2]+`"`) {
		t.Fatalf("setup makes no %s (%v)", command[2], err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, command[2]), []byte("a token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "run", "../dev", command[0], dir, command[2]).CombinedOutput()
	if err != nil || string(out) != "a token\n" {
		t.Errorf("%q printed %q, %v", command, out, err)
	}
}

// No image's context has what Git ignores, which may be secrets and is large.
func TestContextsLeaveOutWhatGitIgnores(t *testing.T) {
	lines := func(file string) []string {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
	left := lines(".dockerignore")
	for _, pattern := range lines(".gitignore") {
		want := strings.Trim(pattern, "/")
		if !strings.HasPrefix(pattern, "/") { // in any folder
			want = "**/" + strings.TrimPrefix(want, "**/")
		}
		if !slices.Contains(left, want) {
			t.Errorf(".dockerignore lacks %s", want)
		}
	}
}
