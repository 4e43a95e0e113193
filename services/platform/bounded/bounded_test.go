package bounded_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/testkit"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.WriteFile(t, path, text)
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte("piped"), 0o600) }()
	for name, tt := range map[string]struct{ path, want, err string }{
		"empty":            {write("empty", ""), "", ""},
		"at the bound":     {write("fits", "12345678"), "12345678", ""},
		"a pipe":           {pipe, "piped", ""},
		"beyond the bound": {write("large", "123456789"), "", "large: larger than 8 bytes"},
		"without an end":   {"/dev/zero", "", "/dev/zero: larger than 8 bytes"},
		"missing":          {filepath.Join(dir, "missing"), "", "missing: no such file"},
		"a folder":         {dir, "", dir + ": is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := bounded.ReadFile(tt.path, 8)
			if string(got) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestReadKeyPairIsBounded(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, tt := range map[string]struct{ cert, key, err string }{
		"a certificate without an end": {"/dev/zero", missing, "/dev/zero: larger than"},
		"a key without an end":         {os.DevNull, "/dev/zero", "/dev/zero: larger than"},
		"no certificate":               {os.DevNull, os.DevNull, "failed to find any PEM data"},
	} {
		if _, err := bounded.ReadKeyPair(tt.cert, tt.key); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", name, err, tt.err)
		}
	}
}
