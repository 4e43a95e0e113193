package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// quoting is the title of a link that a page shows together with the code of the section that it leads to. So a document
// can go through recipes without a copy of them: [The call](../recipes/edge.md#chat "recipe") as a paragraph of its own.
const quoting = "recipe"

// A quote is the code of a section of another document.
type quote struct {
	ast.BaseBlock

	code string
}

var kindQuote = ast.NewNodeKind("Quote")

// Kind implements ast.Node.
func (*quote) Kind() ast.NodeKind { return kindQuote }

// IsRaw implements ast.Node: nothing in the code is Markdown.
func (*quote) IsRaw() bool { return true }

// Dump implements ast.Node.
func (q *quote) Dump(text []byte, level int) {
	ast.DumpHelper(q, text, level, map[string]string{"code": q.code}, nil)
}

// quoteCode puts the code of sections below the links that ask for it.
func (s *site) quoteCode(p *page) error {
	for child := p.tree.FirstChild(); child != nil; child = child.NextSibling() {
		link, ok := child.FirstChild().(*ast.Link)
		if child.Kind() != ast.KindParagraph || !ok || string(link.Title) != quoting || child.ChildCount() > 1 {
			continue
		}
		link.Title = nil
		target, anchor, _ := strings.Cut(string(link.Destination), "#")
		of := s.byFile[path.Join(path.Dir(p.file), target)]
		if of == nil {
			return fmt.Errorf("%s: %s is no document", p.file, target)
		}
		code := of.codeOf(anchor)
		if code == "" {
			return fmt.Errorf("%s: %s has no code in its section %q", p.file, of.file, anchor)
		}
		p.tree.InsertAfter(p.tree, child, &quote{code: code})
	}
	return nil
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
