package app

import (
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/secret"
)

// Content is captured if there is a file of keys. A missing file is no error, an invalid one is.
func TestTraceKeys(t *testing.T) {
	dir := folder(t.TempDir())
	for _, c := range []struct {
		name, file string
		keys, ok   bool
	}{
		{"none is named", "", false, true},
		{"it is not there yet", filepath.Join(string(dir), "keys"), false, true},
		{"good", dir.write(t, "good", strings.Repeat("k", trace.MinSecret)), true, true},
		{"short", dir.write(t, "short", "k"), false, false},
		{"empty", dir.write(t, "empty", ""), false, false},
	} {
		keys, err := traceKeys(secret.File(c.file))
		if (keys != nil) != c.keys || (err == nil) != c.ok {
			t.Errorf("%s: keys %v, %v", c.name, keys != nil, err)
		}
	}
}
