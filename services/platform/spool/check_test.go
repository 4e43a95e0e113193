package spool_test

import (
	"os"
	"path/filepath"
	"testing"

	"switchyard.dev/services/platform/spool"
	"switchyard.dev/services/platform/testkit"
)

// Check says what Open would say, and makes nothing.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file, open := filepath.Join(dir, "file"), filepath.Join(dir, "open")
	testkit.WriteFile(t, file, "x")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for root, good := range map[string]bool{
		filepath.Join(dir, "a", "b"): true, t.TempDir(): true, file: false, filepath.Join(file, "a"): false, open: false,
	} {
		_, before := os.Stat(root)
		if err := spool.Check(root); (err == nil) != good {
			t.Errorf("%s: %v, want it good: %t", root, err, good)
		}
		if _, after := os.Stat(root); (before == nil) != (after == nil) {
			t.Errorf("%s was made", root)
		}
		records, err := spool.Open(root, 1<<20)
		if (err == nil) != good {
			t.Errorf("%s: Open says %v", root, err)
		}
		if err == nil {
			_ = records.Close()
		}
	}
}
