package secret_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// A file that is missing or wrong changes nothing, and each change is logged once, without the secret.
func TestLatest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "url")
	var lines bytes.Buffer
	latest := secret.NewLatest(secret.File(path), slog.New(slog.NewTextHandler(&lines, nil)), func(v secret.Value) (string, error) {
		if strings.HasPrefix(v.Reveal(), "wrong") {
			return "", errors.New("not a number")
		}
		return v.Reveal(), nil
	})
	check := func(step, want, wantLog string) {
		t.Helper()
		lines.Reset()
		for range 2 {
			if got, err := latest.Read(t.Context()); got != want || (err != nil) != (want == "") {
				t.Errorf("%s: %q, %v; want %q", step, got, err, want)
			}
		}
		if got := lines.String(); strings.Count(got, "\n") != min(len(wantLog), 1) || !strings.Contains(got, wantLog) {
			t.Errorf("%s: the log has %q, want one line with %q", step, got, wantLog)
		}
		testkit.NoLeak(t, hidden+"-one", lines.String())
	}
	write := func(text string) { testkit.WriteFile(t, path, text) }
	check("missing at first", "", "")
	write("wrong " + hidden)
	check("wrong at first", "", "")
	write(hidden + "-one")
	check("the first", hidden+"-one", "")
	write("wrong " + hidden + "-one")
	check("wrong", hidden+"-one", "not a number")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("missing", hidden+"-one", "no such file")
	write("wrong")
	check("wrong again", hidden+"-one", "not a number")
	write(hidden + "-one")
	check("as before", hidden+"-one", "")
	write("two")
	check("another", "two", "secret file changed")
	write("wrong")
	check("wrong after it", "two", "not a number")
}
