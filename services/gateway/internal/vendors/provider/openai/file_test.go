package openai_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// A document at a URL is for vendors that fetch it: nothing is sent here.
func TestDocumentsAtURLs(t *testing.T) {
	got, err := sending(t, anyServer, &provider.Chat{Model: "m", Messages: []provider.Message{
		{Role: provider.RoleUser, Content: []provider.Part{{File: &provider.File{URL: "https://x/a.pdf"}}}},
	}}, false)
	if classOf(err) != apierr.ClassPolicy || got != "" {
		t.Errorf("%v, sent %q, want a policy error and nothing", err, got)
	}
}
