package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func put(t *testing.T, folder, name, text string) {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func made(t *testing.T, folders ...string) []byte {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "protos.tar.gz")
	if err := run(archive, folders); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unpacked returns the files of an archive by their names.
func unpacked(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for entries := tar.NewReader(plain); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(entries)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}

func TestArchiveDependsOnFilesOnly(t *testing.T) {
	ours, others := t.TempDir(), t.TempDir()
	put(t, ours, "b/b.proto", "b")
	put(t, ours, "a.proto", "a")
	put(t, ours, "notes.txt", "left out")
	put(t, others, "c.proto", "c")
	first := made(t, ours, others)
	past := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(filepath.Join(ours, "a.proto"), past, past); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(ours, "a.proto"), 0o400); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, made(t, others, ours)) {
		t.Error("the same files give another archive")
	}
	files := unpacked(t, first)
	if len(files) != 3 || files["switchyard-protos/b/b.proto"] != "b" || files["switchyard-protos/c.proto"] != "c" {
		t.Errorf("unpacked %v", files)
	}
	put(t, others, "a.proto", "another")
	if err := run(filepath.Join(t.TempDir(), "x"), []string{ours, others}); err == nil {
		t.Error("a path in two folders is accepted")
	}
}

var imports = regexp.MustCompile(`(?m)^import "([^"]+)";`)

// What the contracts import is in the archive, but for google/protobuf, which every compiler brings.
func TestArchiveIsComplete(t *testing.T) {
	const others = "../../.cache/proto"
	if _, err := os.Stat(filepath.Join(others, "validate", "validate.proto")); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("`make third-party` has not written the protos of others")
		}
		t.Skip("`make third-party` has not written the protos of others")
	}
	files := unpacked(t, made(t, "../../proto", others))
	seen := 0
	for name, text := range files {
		for _, found := range imports.FindAllStringSubmatch(text, -1) {
			seen++
			if _, ok := files[root+"/"+found[1]]; !ok && !strings.HasPrefix(found[1], "google/protobuf/") {
				t.Errorf("%s imports %s, which is missing", name, found[1])
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d imports", seen)
	}
	license, err := os.ReadFile("../../LICENSE")
	if err != nil || files[root+"/LICENSE"] != string(license) {
		t.Errorf("proto/LICENSE is not LICENSE (error %v)", err)
	}
}
