package secretref

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/platform/testkit/growth"
)

// At most maxSecret bytes are read from behind a reference, however many there are, and the cost of a reference grows
// linearly with its length.
func TestReadGrowsLinearly(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "acme"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := New(Options{
		FilesDir: dir, EnvPrefix: "BYOK_" + Placeholder + "__",
		Managers: []string{"awsparamstore://byok/" + Placeholder + "/?region=eu-west-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(reference []byte) { _, _ = r.Read(t.Context(), "acme", string(reference)) }
	// References to a secret manager that are refused before it is called.
	inputs := append([]growth.Input{
		growth.Repeat("a path", "file:", "a/", "b"),
		growth.Repeat("a way back", "file:", "../", "b"),
		growth.Repeat("slashes", "file:", "/", "b"),
		growth.Repeat("an absolute path", "file:"+dir+"/acme/", "a/", "b"),
		growth.Repeat("a variable", "env:BYOK_acme__", "A", ""),
		growth.Repeat("another's secret", "awsparamstore://byok/bolt/", "a/", "b"),
		growth.Repeat("a way back in a secret manager", "awsparamstore://byok/acme/", "../", "b"),
		growth.Repeat("escapes", "awsparamstore://byok/bolt/", "%2e", "b"),
		growth.Repeat("parameters", "awsparamstore://byok/acme/a?", "a=b&", ""),
	}, growth.Text...)
	rows := growth.Each(inputs, read)
	rows = append(rows, growth.Row{Name: "a file", Make: func(n int) func() {
		testkit.WriteFile(t, filepath.Join(dir, "acme", "key"), strings.Repeat("x", n))
		return func() { read([]byte("file:key")) }
	}}, growth.Row{Name: "newlines of a variable", Make: func(n int) func() {
		t.Setenv("BYOK_acme__KEY", "x"+strings.Repeat("\r\n", n))
		return func() { read([]byte("env:BYOK_acme__KEY")) }
	}})
	growth.Linear(t, rows...)
}
