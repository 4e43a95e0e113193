package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// File returns the path of a new file with the text. Only its owner may read it. It is removed at the end of the test.
func File(tb testing.TB, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "file")
	WriteFile(tb, path, text)
	return path
}

// WriteFile writes the text to the path, or fails the test. A new file is readable by its owner only.
func WriteFile(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}
