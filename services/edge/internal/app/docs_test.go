package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/command/commandtest"
)

// The documents are written without settings; a folder that holds something is left alone.
func TestDocs(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "site")
	got := commandtest.Run(root(nil), "", "docs", folder)
	if got.Code != 0 || got.Out != filepath.Join(folder, "index.html")+"\n" {
		t.Fatalf("%+v", got)
	}
	page, err := os.ReadFile(filepath.Join(folder, "edge", "index.html"))
	if err != nil || !strings.Contains(string(page), `<link rel="stylesheet" href="../site.css">`) {
		t.Errorf("%v: %.300s", err, page)
	}
	t.Chdir(folder)
	for _, own := range []string{"", "."} {
		if got := commandtest.Run(root(nil), "", "docs", own); got.Code != 1 || !strings.Contains(got.Err, ". is not empty") {
			t.Errorf("%q: %+v", own, got)
		}
	}
	if got := commandtest.Run(root(nil), "", "docs", folder); got.Code != 1 || !strings.Contains(got.Err, "is not empty") {
		t.Errorf("a second time: %+v", got)
	}
	if got := commandtest.Run(root(nil), "", "docs"); got.Code != 2 {
		t.Errorf("without a folder: %+v", got)
	}
}
