package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

//go:embed assets
var assets embed.FS

// view is what the layout shows of a page.
type view struct {
	*page

	Title   string
	Home    bool
	Find    bool // the page of the search
	Body    template.HTML
	Groups  []groupView
	Edge    bool
	current string
}

type groupView struct {
	*group

	Current bool
	Pages   []pageView
}

type pageView struct {
	Title, Summary, Href string
	Current              bool
	Sections             []section
}

// ID returns the anchor of a section.
func (s section) ID() string { return s.id }

// Title returns the heading of a section.
func (s section) Title() string { return s.title }

// In returns the title of the page's group.
func (v view) In() string {
	if v.page == nil {
		return ""
	}
	return v.group.Title
}

// To returns the link to a path of the site.
func (v view) To(path string) string { return relative(v.current, path) }

// files returns the files of the site by path.
func (s *site) files() (map[string][]byte, error) {
	layout, err := template.ParseFS(assets, "assets/layout.html")
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte)
	for _, g := range s.groups {
		for _, p := range g.pages {
			if err := errors.Join(s.quoteCode(p), s.relink(p)); err != nil {
				return nil, err
			}
			body, err := p.render()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.file, err)
			}
			v := s.view(p.path, p, p.title)
			v.Body = template.HTML(body) //nolint:gosec // It is made of a document of the repository, without HTML of its own.
			if out[p.path], err = execute(layout, v); err != nil {
				return nil, err
			}
		}
	}
	if out[searchPage], err = execute(layout, s.view(searchPage, nil, "Search")); err != nil {
		return nil, err
	}
	maps.Copy(out, s.images)
	if out["index.js"], err = s.index(); err != nil {
		return nil, err
	}
	for _, name := range []string{"site.css", "page.js", "search.js"} {
		if out[name], err = assets.ReadFile("assets/" + name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func execute(layout *template.Template, v view) ([]byte, error) {
	var out bytes.Buffer
	if err := layout.Execute(&out, v); err != nil {
		return nil, fmt.Errorf("%s: %w", v.current, err)
	}
	return out.Bytes(), nil
}

// view returns the frame of a page: its place among the others. The first page shows them all; another one those of its
// group, with its own sections.
func (s *site) view(at string, p *page, title string) view {
	v := view{page: p, Title: title, Home: at == homePage, Find: at == searchPage, Edge: s.edge, current: at}
	for _, g := range s.groups {
		shown := groupView{group: g, Current: p != nil && p.group == g && !v.Home}
		for _, other := range g.pages {
			one := pageView{Title: other.title, Summary: other.summary, Href: relative(at, other.path), Current: other == p}
			if one.Current {
				for _, part := range other.sections[1:] {
					if part.level == 2 {
						one.Sections = append(one.Sections, part)
					}
				}
			}
			shown.Pages = append(shown.Pages, one)
		}
		v.Groups = append(v.Groups, shown)
	}
	return v
}

// render returns the page's text as HTML.
func (p *page) render() ([]byte, error) {
	var out bytes.Buffer
	err := markdown.Renderer().Render(&out, p.source, p.tree)
	return out.Bytes(), err
}

// nodes renders what pages show otherwise than goldmark: blocks of code and tables that scroll by the keyboard, names of
// files that the site does not have, and addresses in brackets.
type nodes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (nodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindCodeBlock, code)
	r.Register(ast.KindFencedCodeBlock, code)
	r.Register(kindQuote, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if q, ok := n.(*quote); ok && entering {
			return ast.WalkContinue, printCode(w, q.code)
		}
		return ast.WalkContinue, nil
	})
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
}

// code renders a block of code.
func code(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	return ast.WalkSkipChildren, printCode(w, strings.TrimRight(string(n.Lines().Value(source)), "\n"))
}

func printCode(w util.BufWriter, text string) error {
	return print(w, `<pre tabindex="0"><code>`, template.HTMLEscapeString(text), "</code></pre>\n")
}

func print(w util.BufWriter, parts ...string) error {
	for _, part := range parts {
		if _, err := w.WriteString(part); err != nil {
			return err
		}
	}
	return nil
}

// index returns the script with the texts that the search looks through: of each section its link, the titles of page
// and section, and the text.
func (s *site) index() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("// The texts of all pages: link, page, section, text. Written by deploy/site.\nconst sections = [\n")
	encoder := json.NewEncoder(&out) // Each value on a line of its own.
	for _, g := range s.groups {
		for _, p := range g.pages {
			for i, part := range p.sections {
				link, title := p.path, part.title
				if i > 0 {
					link += "#" + part.id
				} else {
					title = ""
				}
				if err := encoder.Encode([]string{link, p.title, title, part.text}); err != nil {
					return nil, err
				}
				out.Truncate(out.Len() - 1)
				out.WriteString(",\n")
			}
		}
	}
	out.WriteString("];\n")
	return out.Bytes(), nil
}
