package testkit

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

// MigrationsBefore returns the migrations whose number is lower than one such as "00006": the schema of the release before.
func MigrationsBefore(tb testing.TB, migrations fs.FS, number string) fs.FS {
	tb.Helper()
	names, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		tb.Fatal(err)
	}
	earlier := fstest.MapFS{}
	for _, name := range names {
		if name >= number {
			continue
		}
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			tb.Fatal(err)
		}
		earlier[name] = &fstest.MapFile{Data: text}
	}
	if len(earlier) == 0 || len(earlier) == len(names) {
		tb.Fatalf("%d of %d migrations are before %s", len(earlier), len(names), number)
	}
	return earlier
}
