package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// A source is the text of a link to a file that the site does not have. Its renderer is in render.go.
type source struct {
	ast.BaseInline

	file string
}

// kindSource is the kind of a source.
var kindSource = ast.NewNodeKind("Source")

// Kind implements ast.Node.
func (*source) Kind() ast.NodeKind { return kindSource }

// Dump implements ast.Node.
func (s *source) Dump(text []byte, level int) {
	ast.DumpHelper(s, text, level, map[string]string{"file": s.file}, nil)
}

// relink makes the links and images of a page lead to pages and images of the site. What leads nowhere is an error.
func (s *site) relink(p *page) error {
	var links []*ast.Link
	var images []*ast.Image
	err := ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			links = append(links, link)
		}
		if image, ok := n.(*ast.Image); ok && entering {
			images = append(images, image)
		}
		return ast.WalkContinue, nil
	})
	for i := 0; i < len(links) && err == nil; i++ {
		err = s.relinkOne(p, links[i])
	}
	for i := 0; i < len(images) && err == nil; i++ {
		err = s.addImage(p, images[i])
	}
	return err
}

// relinkOne makes a link lead to a page; what the site does not have becomes its text.
func (s *site) relinkOne(p *page, link *ast.Link) error {
	if string(link.Title) == quoting {
		link.Title = nil
	}
	destination := string(link.Destination)
	if strings.Contains(destination, "://") {
		return nil
	}
	target, anchor, anchored := strings.Cut(destination, "#")
	file := p.file
	if target != "" {
		file = path.Join(path.Dir(p.file), target)
	}
	to := s.byFile[file]
	if to == nil {
		to = s.byFile[path.Join(file, "README.md")]
	}
	if to == nil {
		if _, err := os.Stat(filepath.Join(s.root, file)); err != nil || anchored {
			return fmt.Errorf("%s: the link to %s leads nowhere", p.file, destination)
		}
		replace(link, &source{file: file})
		return nil
	}
	if anchored && !to.has(anchor) {
		return fmt.Errorf("%s: the link to %s: %s has no such section", p.file, destination, to.file)
	}
	href := relative(p.path, to.path)
	if to == p {
		href = ""
	}
	if anchored {
		href += "#" + anchor
	}
	link.Destination = []byte(href)
	return nil
}

// replace puts another node in the place of a link, with its children.
func replace(link *ast.Link, by ast.Node) {
	for child := link.FirstChild(); child != nil; child = link.FirstChild() {
		by.AppendChild(by, child)
	}
	link.Parent().ReplaceChild(link.Parent(), link, by)
}

// addImage takes an image into the site.
func (s *site) addImage(p *page, image *ast.Image) error {
	file := path.Join(path.Dir(p.file), string(image.Destination))
	text, err := os.ReadFile(filepath.Join(s.root, file))
	if err != nil {
		return fmt.Errorf("%s: %w", p.file, err)
	}
	at := "images/" + path.Base(file)
	if other, taken := s.images[at]; taken && string(other) != string(text) {
		return fmt.Errorf("%s: another image has the name %s", p.file, path.Base(file))
	}
	s.images[at] = text
	image.Destination = []byte(relative(p.path, at))
	return nil
}

// relative returns the link from one path of the site to another.
func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + to
}
