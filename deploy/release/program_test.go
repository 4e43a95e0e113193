package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A program of a release is built by its profile, as its image is, also where make turns profiles off.
func TestProgramsAreBuiltByTheirProfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Builds []struct {
			Dir, Main string
			Flags     []string
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	profiles := foldersWith(t, "default.pgo")
	for _, b := range config.Builds {
		for i, profile := range profiles {
			if profile != "/"+filepath.ToSlash(filepath.Join(b.Dir, b.Main)) {
				continue
			}
			profiles[i] = ""
			args := append(append([]string{"build", "-n"}, b.Flags...), b.Main)
			build := exec.CommandContext(t.Context(), "go", args...)
			build.Dir, build.Env = filepath.Join(root, b.Dir), append(os.Environ(), "GOWORK=off", "GOFLAGS=-pgo=off")
			if out, err := build.CombinedOutput(); err != nil || !strings.Contains(string(out), "default.pgo") {
				t.Errorf("%s: go %s uses no profile: %v", b.Dir, strings.Join(args, " "), err)
			}
		}
	}
	if left := strings.Join(profiles, ""); len(profiles) == 0 || left != "" {
		t.Errorf("no program of .goreleaser.yaml has the profile in %q", left)
	}
}
