//go:build nocloud

package secretref

import (
	"strings"
	"testing"
)

// A setting that this build can't follow fails the start and says what to do.
func TestBuildWithoutDriversRefusesManagers(t *testing.T) {
	_, err := New(Options{Managers: []string{"awssecretsmanager://byok/{organization}/?region=eu-west-1"}})
	if err == nil || !strings.Contains(err.Error(), "without the tag nocloud") {
		t.Errorf("%v, want an error that names the tag", err)
	}
	if _, err := New(Options{FilesDir: t.TempDir(), EnvPrefix: "BYOK_{organization}__"}); err != nil {
		t.Errorf("without secret managers: %v", err)
	}
}
