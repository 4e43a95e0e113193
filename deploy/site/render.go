package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// contents are the groups as contents.json has them, for services/edge/internal/site.
type contents []contentsGroup

type contentsGroup struct {
	ID        string             `json:"id"`
	Title     string             `json:"title"`
	For       string             `json:"for"`
	Documents []contentsDocument `json:"documents"`
}

type contentsDocument struct {
	Path    string `json:"path"`
	Title   string `json:"title"`
	Summary string `json:"summary,omitzero"`
}

// contentsFile holds the groups.
const contentsFile = "contents.json"

// files returns the documents as HTML, their images and their contents, by path.
func (s *site) files() (map[string][]byte, error) {
	files := make(map[string][]byte)
	var all contents
	for _, g := range s.groups {
		shown := contentsGroup{ID: g.ID, Title: g.Title, For: g.For}
		for _, p := range g.pages {
			if err := s.relink(p); err != nil {
				return nil, err
			}
			var err error
			if files[p.path], err = p.render(); err != nil {
				return nil, fmt.Errorf("%s: %w", p.file, err)
			}
			shown.Documents = append(shown.Documents, contentsDocument{p.path, p.title, p.summary})
		}
		all = append(all, shown)
	}
	maps.Copy(files, s.images)
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return nil, err
	}
	files[contentsFile] = append(text, '\n')
	return files, nil
}

// render returns the page's text as HTML.
func (p *page) render() ([]byte, error) {
	var out bytes.Buffer
	err := markdown.Renderer().Render(&out, p.source, p.tree)
	return out.Bytes(), err
}

// nodes renders what pages show otherwise than goldmark: blocks of code and tables that scroll by the keyboard, headers of
// tables without a text, names of files that the site does not have, and addresses in brackets.
type nodes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (nodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindCodeBlock, code)
	r.Register(ast.KindFencedCodeBlock, code)
	r.Register(kindSource, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if of, ok := n.(*source); ok && entering {
			return ast.WalkContinue, print(w, `<span class="source" title="in the repository: `, template.HTMLEscapeString(of.file), `">`)
		}
		return ast.WalkContinue, print(w, "</span>")
	})
	r.Register(ast.KindAutoLink, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.AutoLink); ok && entering { // In the documents an address in brackets is an example.
			return ast.WalkContinue, print(w, "&lt;", template.HTMLEscapeString(string(link.Label(source))), "&gt;")
		}
		return ast.WalkContinue, nil
	})
	r.Register(extast.KindTable, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			return ast.WalkContinue, print(w, "<div class=\"wide\" tabindex=\"0\">\n<table>\n")
		}
		return ast.WalkContinue, print(w, "</table>\n</div>\n")
	})
	r.Register(extast.KindTableCell, tableCell)
}

// code renders a block of code.
func code(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	text := strings.TrimRight(string(n.Lines().Value(source)), "\n")
	return ast.WalkSkipChildren, print(w, `<pre tabindex="0"><code>`, template.HTMLEscapeString(text), "</code></pre>\n")
}

func print(w util.BufWriter, parts ...string) error {
	for _, part := range parts {
		if _, err := w.WriteString(part); err != nil {
			return err
		}
	}
	return nil
}

// tableCell renders a cell of a table. One of the header without a text is no header of its column.
func tableCell(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	name := "td"
	if n.Parent().Kind() == extast.KindTableHeader && n.HasChildren() {
		name = "th"
	}
	if entering {
		return ast.WalkContinue, print(w, "<", name, ">")
	}
	return ast.WalkContinue, print(w, "</", name, ">\n")
}
