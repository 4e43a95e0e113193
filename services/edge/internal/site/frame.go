package site

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"strings"

	"switchyard.dev/services/platform/apidoc"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/layout.html"))

// page is a document that is put into the frame.
type page struct {
	*document

	group    *group
	sections []section
}

// view is what the layout shows of a page.
type view struct {
	Title     string
	In        string // the title of its group
	Home      bool
	Find      bool // the page of the search
	Missing   bool // the answer to a path that there is not
	Body      template.HTML
	Groups    []groupView
	Reference string
	path      string
	root      string // of links; empty for ones that are relative to path
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

// To returns the link to a path of the site.
func (v view) To(path string) string {
	if v.root != "" {
		return v.root + path
	}
	return relative(v.path, path)
}

// relative returns the link from one path of the site to another.
func relative(from, to string) string { return strings.Repeat("../", strings.Count(from, "/")) + to }

// files returns the files of the site by path: pages, images, style sheet and scripts. reference links to the page of the
// customers' routes; empty for none.
func (c *contents) files(reference string) (map[string][]byte, error) {
	pages, err := c.pages()
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for i := range pages {
		if files[pages[i].Path], err = execute(c.view(pages[i].Path, &pages[i], reference)); err != nil {
			return nil, err
		}
	}
	if files[searchPage], err = execute(c.view(searchPage, nil, reference)); err != nil {
		return nil, err
	}
	maps.Copy(files, c.images)
	if files["index.js"], err = index(pages); err != nil {
		return nil, err
	}
	files["icon.svg"] = apidoc.Icon
	for _, name := range []string{"site.css", "page.js", "search.js"} {
		if files[name], err = assets.ReadFile("assets/" + name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// missing returns the page for a path that there is not below root.
func (c *contents) missing(root, reference string) ([]byte, error) {
	v := c.view("", nil, reference)
	v.Title, v.Find, v.Missing, v.root = "This page does not exist", false, true, root
	return execute(v)
}

// pages returns the pages of all documents in their order.
func (c *contents) pages() (pages []page, err error) {
	for i := range c.groups {
		g := &c.groups[i]
		for k := range g.Documents {
			p := page{document: &g.Documents[k], group: g}
			if p.sections, err = sections(p.Body); err != nil {
				return nil, fmt.Errorf("%s: %w", p.Path, err)
			}
			pages = append(pages, p)
		}
	}
	return pages, nil
}

func execute(v view) ([]byte, error) {
	var out bytes.Buffer
	if err := layout.Execute(&out, v); err != nil {
		return nil, fmt.Errorf("%s: %w", v.path, err)
	}
	return out.Bytes(), nil
}

// view returns a page in its place among the others. The first page shows them all; another one those of its group, with
// its own sections. p is nil for the page of the search.
func (c *contents) view(at string, p *page, reference string) view {
	v := view{Title: "Search", Home: at == homePage, Find: p == nil, Reference: reference, path: at}
	if p != nil {
		v.Title, v.In = p.Title, p.group.Title
		v.Body = template.HTML(p.Body)
	}
	for i := range c.groups {
		g := &c.groups[i]
		shown := groupView{group: g, Current: p != nil && p.group == g && !v.Home}
		for k := range g.Documents {
			d := &g.Documents[k]
			one := pageView{Title: d.Title, Summary: d.Summary, Href: relative(at, d.Path), Current: p != nil && p.document == d}
			if one.Current {
				one.Sections = p.shown()
			}
			shown.Pages = append(shown.Pages, one)
		}
		v.Groups = append(v.Groups, shown)
	}
	return v
}

// shown returns the sections that the contents list: those below the title.
func (p *page) shown() (list []section) {
	for _, part := range p.sections {
		if part.Level == 2 {
			list = append(list, part)
		}
	}
	return list
}

// index returns the script with the texts that the search looks through: of each section its link, the titles of page
// and section, and the text.
func index(pages []page) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("// The texts of all pages: link, page, section, text. Made by package site.\nconst sections = [\n")
	encoder := json.NewEncoder(&out) // Each value on a line of its own.
	for i := range pages {
		p := &pages[i]
		for k, part := range p.sections {
			link, title := p.Path, part.Title
			if k > 0 {
				link += "#" + part.ID
			} else {
				title = ""
			}
			if err := encoder.Encode([]string{link, p.Title, title, part.Text}); err != nil {
				return nil, fmt.Errorf("%s: %w", p.Path, err)
			}
			out.Truncate(out.Len() - 1)
			out.WriteString(",\n")
		}
	}
	out.WriteString("];\n")
	return out.Bytes(), nil
}
