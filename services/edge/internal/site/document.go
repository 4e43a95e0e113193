package site

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
)

// Paths of the page that no document has, and of the first page.
const (
	homePage   = "index.html"
	searchPage = "search.html"
)

// contentsFile holds the groups, imageFolder the images of a folder of documents.
const (
	contentsFile = "contents.json"
	imageFolder  = "images"
)

// group is a part of the contents: documents for one kind of reader.
type group struct {
	// ID is its anchor on the first page.
	ID    string `json:"id"`
	Title string `json:"title"`
	// For says who reads it.
	For       string     `json:"for"`
	Documents []document `json:"documents"`
}

// document is a rendered document.
type document struct {
	// Path is that of its page, such as "gateway/tools.html".
	Path string `json:"path"`
	// Title is what lists call it.
	Title string `json:"title"`
	// Summary is a sentence; may be empty.
	Summary string `json:"summary,omitzero"`
	// Body is its HTML: trusted, and beginning with its only heading of the first level. Headings have ids.
	Body string `json:"-"`
}

// contents are the documents of a folder that deploy/site has written.
type contents struct {
	groups []group
	images map[string][]byte // by path, below imageFolder
}

// read returns the contents of a folder.
func read(folder fs.FS) (*contents, error) {
	c := &contents{images: make(map[string][]byte)}
	text, err := fs.ReadFile(folder, contentsFile)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &c.groups); err != nil {
		return nil, fmt.Errorf("%s: %w", contentsFile, err)
	}
	for _, g := range c.groups {
		for i := range g.Documents {
			body, err := fs.ReadFile(folder, g.Documents[i].Path)
			if err != nil {
				return nil, err
			}
			g.Documents[i].Body = string(body)
		}
	}
	images, err := fs.Glob(folder, path.Join(imageFolder, "*"))
	if err != nil {
		return nil, err
	}
	for _, name := range images {
		if c.images[name], err = fs.ReadFile(folder, name); err != nil {
			return nil, err
		}
	}
	return c, nil
}
