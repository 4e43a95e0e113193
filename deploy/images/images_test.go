package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository's root.
const root = "../.."

// Every image that is built from or run is named by tag and digest, and an image has the same digest everywhere.
func TestImagesArePinned(t *testing.T) {
	paths, err := files(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < 7 {
		t.Fatalf("files %v", paths)
	}
	seen := make(map[string]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := line.FindAllStringSubmatch(string(text), -1)
		if want := strings.Count(string(text), "\nFROM ") + strings.Count(string(text), " image: "); len(found) != want || want == 0 {
			t.Errorf("%s: %d images were found in %d lines that name one", path, len(found), want)
		}
		for _, parts := range found {
			image, pinned := parts[2], strings.TrimPrefix(parts[3], "@")
			if !digest.MatchString(pinned) {
				t.Errorf("%s: %s: digest %q", path, image, pinned)
			}
			if before, known := seen[image]; known && before != pinned {
				t.Errorf("%s: %s has the digests %s and %s", path, image, before, pinned)
			}
			seen[image] = pinned
		}
	}
}

const (
	compose = "services:\n  a:\n    image: redis:7-alpine\n  b:\n    image: registry.example:5000/team/x:v1@sha256:old # why\n  c:\n    build: {context: .}\n"
	docker  = "FROM --platform=$BUILDPLATFORM golang:1.26@sha256:old AS build\nRUN true\n\nFROM redis:7-alpine\nCOPY --from=build /x /x\n"
)

// tree returns a folder with a compose file and a Dockerfile.
func tree(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for path, text := range map[string]string{"docker-compose.yaml": compose, "services/x/Dockerfile": docker} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700), os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func content(t *testing.T, dir, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPin(t *testing.T) {
	dir, hex := tree(t), strings.Repeat("0a", 32)
	asked := make(map[string]int)
	changed, err := pin(t.Context(), dir, func(_ context.Context, image string) (string, error) {
		asked[image]++
		return "sha256:" + hex, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]int{"redis:7-alpine": 1, "registry.example:5000/team/x:v1": 1, "golang:1.26": 1}; !maps.Equal(asked, want) || len(changed) != 3 {
		t.Errorf("asked %v, changed %q", asked, changed)
	}
	pinned := "@sha256:" + hex
	want := strings.NewReplacer("redis:7-alpine", "redis:7-alpine"+pinned, "@sha256:old", pinned)
	for path, text := range map[string]string{"docker-compose.yaml": compose, "services/x/Dockerfile": docker} {
		if got := content(t, dir, path); got != want.Replace(text) {
			t.Errorf("%s:\n%s", path, got)
		}
	}
	if changed, err := pin(t.Context(), dir, func(context.Context, string) (string, error) { return "sha256:" + hex, nil }); err != nil || len(changed) > 0 {
		t.Errorf("a second run changed %q, %v", changed, err)
	}
}

// An answer that is missing, or is no digest, leaves every file as it is.
func TestPinAllOrNothing(t *testing.T) {
	for name, answer := range map[string]func(context.Context, string) (string, error){
		"refused":   func(context.Context, string) (string, error) { return "", errors.New("denied") },
		"no digest": func(context.Context, string) (string, error) { return "sha256:short", nil },
		"one of three": func(_ context.Context, image string) (string, error) {
			if image == "golang:1.26" {
				return "", errors.New("unknown tag")
			}
			return "sha256:" + strings.Repeat("0a", 32), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			if _, err := pin(t.Context(), dir, answer); err == nil || !strings.Contains(err.Error(), "golang:1.26: ") {
				t.Errorf("%v, want the image that failed", err)
			}
			if content(t, dir, "docker-compose.yaml") != compose || content(t, dir, "services/x/Dockerfile") != docker {
				t.Error("a file changed")
			}
		})
	}
}

func TestAskReportsWhatFails(t *testing.T) {
	if _, err := ask(filepath.Join(t.TempDir(), "crane"))(t.Context(), "redis:7"); err == nil {
		t.Error("a program that isn't there answered")
	}
	program := filepath.Join(t.TempDir(), "crane")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n[ \"$2\" = redis:7 ] && echo sha256:1 && exit 0\necho \"MANIFEST_UNKNOWN\" >&2; exit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(program)(t.Context(), "redis:7"); err != nil || got != "sha256:1" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ask(program)(t.Context(), "redis:8"); err == nil || !strings.Contains(err.Error(), "MANIFEST_UNKNOWN") {
		t.Errorf("%v, want what the program said", err)
	}
}
