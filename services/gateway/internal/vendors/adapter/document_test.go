package adapter

import (
	"errors"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// A document that is named by URL goes to the vendors that fetch documents. Providers of others refuse the chat before
// they send anything, so that the gateway has to fetch it for them.
func TestDocumentsByURL(t *testing.T) {
	const link = "https://documents.example/a.pdf"
	for _, c := range []struct {
		dialect, baseURL, model string
		fetches                 bool
	}{
		{"anthropic", "https://api.anthropic.com", "claude-opus-4-6", true},
		{"openai", "https://api.openai.com", "gpt-5.1", false},
		{"gemini", "https://generativelanguage.googleapis.com", "gemini-2.5-flash", false},
		{"bedrock", "https://bedrock-runtime.eu-west-1.amazonaws.com", "eu.anthropic.claude-opus-4-7", false},
	} {
		of, _ := Find(c.dialect)
		over := new(wire)
		p, err := of.New(provider.Settings{BaseURL: c.baseURL, Transport: over})
		if err != nil {
			t.Fatal(err)
		}
		fetcher, has := p.(provider.DocumentFetcher)
		if fetches := has && fetcher.FetchesDocument(link); fetches != c.fetches {
			t.Errorf("%s: fetches documents: %v, want %v", c.dialect, fetches, c.fetches)
		}
		_, err = p.(provider.ChatProvider).Chat(t.Context(), provider.Credential{}, &provider.Chat{
			Model: c.model, Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{File: &provider.File{URL: link}}}}},
		})
		if c.fetches {
			if !strings.Contains(over.sent, `"url":"`+link+`"`) {
				t.Errorf("%s: sent %q, error %v, want the URL", c.dialect, over.sent, err)
			}
			continue
		}
		e, ok := errors.AsType[*provider.Error](err)
		if over.sent != "" || !ok || e.Class != apierr.ClassPolicy || !strings.HasPrefix(e.Text, "messages[].content: ") {
			t.Errorf("%s: sent %q, error %v, want the content refused", c.dialect, over.sent, err)
		}
	}
}
