package main

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// A quick start shows the code of the recipes that it links to.
func TestPagesQuoteRecipes(t *testing.T) {
	files, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"start/chat.html":          `"$EDGE_URL/product/v1/ai/chat" -d '{"model":"sandbox"`,
		"start/tools.html":         `"$GATEWAY_URL/v1/mcp/servers/payments/review"`,
		"start/webhooks.html":      `"$EDGE_URL/product/v1/webhooks/deliveries"`,
		"start/notifications.html": `"$EDGE_URL/product/v1/notifications/send"`,
		"start/keys.html":          `"$EDGE_URL/admin/v1/keys"`,
		"start/index.html":         ". .local/demo.env",
	} {
		page, err := html.Parse(bytes.NewReader(files[name]))
		if err != nil {
			t.Fatal(err)
		}
		var code strings.Builder
		for n := range page.Descendants() {
			if n.Type == html.TextNode && n.Parent.Data == "code" {
				code.WriteString(n.Data)
			}
		}
		if !strings.Contains(code.String(), want) {
			t.Errorf("%s lacks %s", name, want)
		}
	}
	s, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"../recipes/edge.md#missing", "../recipes/missing.md#chat", "chat.md#next"} {
		p, err := newPage("deploy/examples/start/new.md", []byte("# A\n\n[x]("+link+" \"recipe\")\n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.quoteCode(p); err == nil {
			t.Errorf("%s has no code, and is quoted", link)
		}
	}
}
