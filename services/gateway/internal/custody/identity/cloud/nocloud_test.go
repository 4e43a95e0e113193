//go:build nocloud

package cloud

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/custody/identity"
)

// An identity that this build can't exchange fails the start and says what to do.
func TestBuildWithoutDriversRefusesClouds(t *testing.T) {
	open := Opener(identity.Clients{})
	for _, config := range []identity.Config{{AWS: &identity.AWS{}}, {GCP: &identity.GCP{}}, {Azure: &identity.Azure{}}} {
		_, err := open(config)
		if err == nil || !strings.Contains(err.Error(), "without the tag nocloud") {
			t.Errorf("%s: %v, want an error that names the tag", config.Kind(), err)
		}
	}
	config := identity.Config{OIDC: &identity.OIDC{TokenURL: "https://auth.openai.com/oauth/token"}}
	if _, err := open(config); err != nil {
		t.Errorf("oidc needs no library: %v", err)
	}
}
