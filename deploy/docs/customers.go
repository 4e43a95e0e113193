package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"switchyard.dev/deploy/examples/recipes"
)

// recipe is a call of a customers' route as a curl line.
type recipe struct {
	Method string `json:"method"`
	Path   string `json:"path"` // with variables of the shell
	Text   string `json:"text"`
}

// customers writes what the edge's page for customers takes from other documents: the recipes of the customers' routes,
// and what receivers of webhooks may rely on.
func customers(services string) error {
	dir := filepath.Join(services, "edge", "internal", "reference")
	script, err := recipes.Script("edge")
	if err != nil {
		return err
	}
	var lines []recipe
	for _, call := range recipes.Calls(script) {
		if strings.HasPrefix(call.Path, "/product/") {
			lines = append(lines, recipe{call.Verb, call.Path, call.Text})
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(lines); err != nil {
		return fmt.Errorf("recipes: %w", err)
	}
	receiver, err := os.ReadFile(filepath.Join(services, "webhook-egress", "docs", "receiver.md"))
	if err != nil {
		return err
	}
	page, err := receiverPage(receiver)
	if err != nil {
		return fmt.Errorf("receiver.md: %w", err)
	}
	for name, text := range map[string][]byte{"recipes.json": out.Bytes(), "receiver.html": page} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil { //nolint:gosec // Sources of the tree: every account may read them.
			return err
		}
	}
	return nil
}

// samples are the programs that receive webhooks, as receiver.md links to them; samplesPage is their page in the edge's site.
const (
	samples     = "](../../../deploy/examples/receivers/README.md)"
	samplesPage = "](docs/receivers/)"
)

// receiverPage returns the document for receivers as HTML without its title, with headings that fit below one of the
// second level, and with links for the edge's page.
func receiverPage(markdown []byte) ([]byte, error) {
	_, body, _ := bytes.Cut(markdown, []byte("\n"))
	body = bytes.ReplaceAll(body, []byte("\n## "), []byte("\n### "))
	body = bytes.ReplaceAll(body, []byte(samples), []byte(samplesPage))
	var out bytes.Buffer
	if err := goldmark.New(goldmark.WithExtensions(extension.Table)).Convert(body, &out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
