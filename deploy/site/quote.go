package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// quoting is the title of a link below which a document shows the code of the section that it leads to. So a document
// goes through recipes, on the site and wherever Markdown is read, and `make gen` keeps the code equal to theirs:
// [The call](../recipes/edge.md#chat "recipe") as a paragraph of its own.
const quoting = "recipe"

// Remarks around the code below such a link.
const (
	quoteBegins = "<!-- `make gen` writes these lines from the recipe. -->"
	quoteEnds   = "<!-- End of the recipe. -->"
)

// A quotation is a link of that title and the code below it, if `make gen` has written it yet.
var quotation = regexp.MustCompile(`(?ms)^\[[^\]\n]+\]\(([^)#\s]+)#([^)\s]+) "` + quoting + `"\)$` +
	`(?:\n\n` + quoteBegins + `\n.*?` + quoteEnds + `$)?`)

// quote writes the code of sections below the links that ask for it, into the documents themselves.
func (s *site) quote() error {
	for file, p := range s.byFile {
		text, err := s.quoted(p)
		if err != nil {
			return err
		}
		if text == string(p.source) {
			continue
		}
		if err := os.WriteFile(filepath.Join(s.root, filepath.FromSlash(file)), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// quoted returns a document with the code of sections below the links that ask for it.
func (s *site) quoted(p *page) (string, error) {
	var missing error
	text := quotation.ReplaceAllStringFunc(string(p.source), func(old string) string {
		link, _, _ := strings.Cut(old, "\n")
		found := quotation.FindStringSubmatch(old)
		of := s.byFile[path.Join(path.Dir(p.file), found[1])]
		if of == nil {
			missing = errors.Join(missing, fmt.Errorf("%s: %s is no document", p.file, found[1]))
			return old
		}
		code := of.codeOf(found[2])
		if code == "" {
			missing = errors.Join(missing, fmt.Errorf("%s: %s has no code in its section %q", p.file, of.file, found[2]))
			return old
		}
		return link + "\n\n" + quoteBegins + "\n```sh\n" + code + "\n```\n" + quoteEnds
	})
	return text, missing
}

// codeOf returns the blocks of code between a heading and the next one: those of the shell if there are any.
func (p *page) codeOf(anchor string) string {
	var shell, all strings.Builder
	within := false
	for child := p.tree.FirstChild(); child != nil; child = child.NextSibling() {
		if h, ok := child.(*ast.Heading); ok {
			within = anchorOf(h) == anchor
		}
		if kind := child.Kind(); !within || kind != ast.KindCodeBlock && kind != ast.KindFencedCodeBlock {
			continue
		}
		code := child.Lines().Value(p.source)
		all.Write(code)
		if fenced, ok := child.(*ast.FencedCodeBlock); ok && string(fenced.Language(p.source)) == "sh" {
			shell.Write(code)
		}
	}
	if shell.Len() > 0 {
		return strings.TrimRight(shell.String(), "\n")
	}
	return strings.TrimRight(all.String(), "\n")
}
