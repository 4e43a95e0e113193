package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository's root.
const root = "../.."

// What `make gen` writes is committed.
func TestCommittedDocuments(t *testing.T) {
	files, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := os.DirFS(filepath.Join(root, out))
	err = fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		if !bytes.Equal(text, files[name]) {
			t.Errorf("%s is not what 'make gen' makes", name)
		}
		delete(files, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		t.Errorf("%s is not committed: run 'make gen'", name)
	}
}

// A document that would make a bad page is refused.
func TestDocumentsAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no title":            "text\n",
		"empty":               "",
		"two titles":          "# A\n\n# B\n",
		"a heading skips":     "# A\n\n### B\n",
		"HTML":                "# A\n\n<div>x</div>\n",
		"HTML in a paragraph": "# A\n\nx <b>y</b>\n",
	} {
		if p, err := newPage("a.md", []byte(text)); err == nil {
			t.Errorf("%s: a page %q", name, p.title)
		}
	}
	if _, err := newPage("a.md", []byte("# A\n\n<!-- remark -->\n\n## B\n")); err != nil {
		t.Errorf("a remark: %v", err)
	}
}

// A header of a table without a text is a cell: it heads nothing.
func TestEmptyTableHeader(t *testing.T) {
	p, err := newPage("services/gateway/docs/new.md", []byte("# A\n\n| | b |\n| --- | --- |\n| | d |\n"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := p.render()
	if want := "<td></td>\n<th>b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td></td>\n<td>d</td>\n"; err != nil || !strings.Contains(string(body), want) {
		t.Errorf("%v %s, want %s", err, body, want)
	}
}

// Links lead from a document's place in the repository to a page's place in the site, or are an error.
func TestLinks(t *testing.T) {
	s, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	for link, want := range map[string]string{
		"policy.md":              `<a href="../gateway/policy.html">x</a>`,
		"policy.md#fields":       "",
		"providers.md#openai":    `<a href="../gateway/providers.html#openai">x</a>`,
		"#here":                  `<a href="#here">x</a>`,
		"#there":                 "",
		"../README.md":           `<a href="../gateway/index.html">x</a>`,
		"../../../README.md":     `<a href="../index.html">x</a>`,
		"../../../deploy":        `<a href="../deploy/index.html">x</a>`,
		"../internal/api":        `<span class="source" title="in the repository: services/gateway/internal/api">x</span>`,
		"../internal/api#x":      "",
		"missing.md":             "",
		"../../../../outside.md": "",
		"https://www.rfc-editor.org/rfc/rfc9110#x": `<a href="https://www.rfc-editor.org/rfc/rfc9110#x">x</a>`,
	} {
		p, err := newPage("services/gateway/docs/new.md", []byte("# A\n\n## Here\n\n[x]("+link+")\n"))
		if err != nil {
			t.Fatal(err)
		}
		s.byFile[p.file] = p
		err = s.relink(p)
		if (err == nil) != (want != "") {
			t.Errorf("%s: %v", link, err)
		}
		if err != nil {
			continue
		}
		body, err := p.render()
		if err != nil || !strings.Contains(string(body), "<p>"+want+"</p>") {
			t.Errorf("%s: %v %s, want %s", link, err, body, want)
		}
	}
}
