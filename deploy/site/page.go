package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// A page is a document with what others need to know of it.
type page struct {
	file, path string
	group      *group
	title      string
	summary    string // the first sentence before its sections; may be empty
	source     []byte
	tree       ast.Node
	sections   []section
}

// A section is a heading with what follows it up to the next one.
type section struct {
	id    string
	level int
}

// markdown reads the documents' dialect of Markdown: CommonMark with tables.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(nodes{}, 100))),
)

// newPage parses a document. file is its path from the repository's root.
func newPage(file string, source []byte) (*page, error) {
	p := &page{file: file, path: pathOf(file), source: source}
	p.tree = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{}))))
	if err := p.clean(); err != nil {
		return nil, err
	}
	if err := p.divide(); err != nil {
		return nil, err
	}
	for child := p.tree.FirstChild().NextSibling(); child != nil && child.Kind() != ast.KindHeading; child = child.NextSibling() {
		if child.Kind() == ast.KindParagraph {
			p.summary = firstSentence(p.plain(child))
			break
		}
	}
	return p, nil
}

// clean removes remarks. Other HTML is refused: pages are made of Markdown alone.
func (p *page) clean() error {
	var remarks []ast.Node
	err := ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if raw, ok := n.(*ast.HTMLBlock); ok && entering {
			if raw.HTMLBlockType != ast.HTMLBlockType2 {
				return ast.WalkStop, errors.New("HTML that is no remark")
			}
			remarks = append(remarks, n)
		}
		if _, ok := n.(*ast.RawHTML); ok {
			return ast.WalkStop, errors.New("HTML within a paragraph")
		}
		return ast.WalkContinue, nil
	})
	for _, n := range remarks {
		n.Parent().RemoveChild(n.Parent(), n)
	}
	return err
}

// divide finds the title and the sections. The title is the only heading of the first level; none skips a level.
func (p *page) divide() error {
	for child := p.tree.FirstChild(); child != nil; child = child.NextSibling() {
		h, ok := child.(*ast.Heading)
		if !ok {
			if len(p.sections) == 0 {
				return errors.New("the document does not begin with its title")
			}
			continue
		}
		title := p.plain(h)
		p.title = cmp.Or(p.title, title)
		if before := len(p.sections); (h.Level == 1) != (before == 0) || before > 0 && h.Level > p.sections[before-1].level+1 {
			return fmt.Errorf("heading %q has level %d", title, h.Level)
		}
		p.sections = append(p.sections, section{anchorOf(h), h.Level})
	}
	if len(p.sections) == 0 {
		return errors.New("the document is empty")
	}
	return nil
}

// has reports whether the page has an anchor.
func (p *page) has(anchor string) bool {
	return slices.ContainsFunc(p.sections, func(s section) bool { return s.id == anchor })
}

func anchorOf(h *ast.Heading) string {
	id, _ := h.AttributeString("id")
	name, _ := id.([]byte)
	return string(name)
}

var spaces = regexp.MustCompile(`\s+`)

// plain returns the text of a heading or a paragraph, with single spaces.
func (p *page) plain(node ast.Node) string {
	var out strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // The function returns no error.
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				out.Write(n.Value(p.source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					out.WriteByte(' ')
				}
			}
		case *ast.AutoLink:
			if entering {
				out.Write(n.Label(p.source))
			}
		case *ast.String:
			if entering {
				out.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(spaces.ReplaceAllString(out.String(), " "))
}

// firstSentence returns the text up to its first full stop, at most 200 bytes of whole words.
func firstSentence(text string) string {
	const most = 200
	if i := strings.Index(text, ". "); i > 0 {
		text = text[:i+1]
	}
	text = strings.TrimSuffix(text, ":")
	if len(text) > most {
		text = text[:strings.LastIndexByte(text[:most], ' ')] + " …"
	}
	return text
}

// anchors names headings as code hosts do, so that links to sections work there and here.
type anchors struct{ used []string }

// Generate returns the name of a heading: in lower case, with hyphens for spaces.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	name := slug(string(value))
	for i, unique := 1, name; ; i++ {
		if !slices.Contains(a.used, unique) {
			a.used = append(a.used, unique)
			return []byte(unique)
		}
		unique = name + "-" + strconv.Itoa(i)
	}
}

// Put records a name that a document has given itself.
func (a *anchors) Put(value []byte) { a.used = append(a.used, string(value)) }

var unnamed = regexp.MustCompile(`[^\pL\pN _-]`)

func slug(title string) string {
	return strings.ReplaceAll(unnamed.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")
}
