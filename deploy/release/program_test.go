package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/deploy/dev/stack"
)

// build is how a program of a release is built.
type build struct {
	Dir, Main, Binary string
	Flags             []string
}

func builds(t *testing.T) []build {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Builds []build }
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	return config.Builds
}

// A release has all programs that `make run` needs.
func TestProgramsOfTheLocalStack(t *testing.T) {
	want := []string{"dev", stack.Fakes}
	for _, service := range stack.Services {
		want = append(want, string(service))
	}
	for _, b := range builds(t) {
		want = slices.DeleteFunc(want, func(name string) bool { return name == b.Binary })
	}
	if len(want) > 0 {
		t.Errorf(".goreleaser.yaml doesn't build %v", want)
	}
}

// A release builds a program with its profile, as its image does, although make turns profiles off.
func TestProgramsAreBuiltByTheirProfile(t *testing.T) {
	profiles := foldersWith(t, "default.pgo")
	for _, b := range builds(t) {
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
