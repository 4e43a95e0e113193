package inference

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/platform/apierr"
)

// The log of a request without keys names the first files that lack one, each once; the caller's text names none.
func TestMissingKeysAreNamedInTheLogOnly(t *testing.T) {
	var m missingKeys
	m.add(nil)
	m.add(keyring.ErrNoKey)
	if err := m.refuse(); !errors.Is(err, errMissingKeys) {
		t.Errorf("without a file: %v", err)
	}
	for i := range 2 * maxMissing {
		for range 2 {
			m.add(fmt.Errorf("resolve: %w", &keyring.MissingError{Provider: "openai", File: fmt.Sprintf("/keys/%d.key", i)}))
		}
	}
	if len(m) != maxMissing {
		t.Errorf("%d files are named, want %d", len(m), maxMissing)
	}
	e := apierr.From(m.refuse())
	if e.Text != errMissingKeys.Text || e.Kind != errMissingKeys.Kind || e.Reason != ReasonMissingKeys || e.ErrorClass() != apierr.ClassAuth {
		t.Errorf("the caller gets %+v", e)
	}
	if text := e.Error(); strings.Count(text, "/keys/0.key") != 1 || !strings.Contains(text, "provider openai") {
		t.Errorf("the log has %q", text)
	}
}
