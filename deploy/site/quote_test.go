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
		if text, err := s.quoted(p); err == nil {
			t.Errorf("%s has no code, and is quoted: %s", link, text)
		}
	}
	for _, p := range s.byFile {
		if text, err := s.quoted(p); err != nil || text != string(p.source) {
			t.Errorf("%s: %v; it does not have the code of its recipes: run 'make gen'", p.file, err)
		}
	}
}

// Code is written below its link once, and replaced when the recipe has changed.
func TestQuotesAreReplaced(t *testing.T) {
	recipe, err := newPage("deploy/examples/recipes/new.md", []byte("# A\n\n## Call\n\n```sh\ncurl a\n```\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{byFile: map[string]*page{recipe.file: recipe}}
	const link = `[x](../recipes/new.md#call "recipe")`
	const want = "# A\n\n" + link + "\n\n" + quoteBegins + "\n```sh\ncurl a\n```\n" + quoteEnds + "\n\nEnd.\n"
	for _, text := range []string{"# A\n\n" + link + "\n\nEnd.\n", want, strings.Replace(want, "curl a", "curl b\n\ncurl c", 1)} {
		p, err := newPage("deploy/examples/start/new.md", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.quoted(p); err != nil || got != want {
			t.Errorf("%v, %s, want %s", err, got, want)
		}
	}
}
