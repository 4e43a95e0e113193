package apidoc

import (
	"fmt"
	"io/fs"
	"net/http"
)

// Paths of the document and its page on every face.
const (
	DocumentPath = "/openapi.json"
	PagePath     = "/docs"
)

// Face returns handlers, by path, for the document of a capability service: every operation of its contract,
// openapi/<name>.swagger.json in files, for callers with a service token.
func Face(files fs.FS, name, title, description string) (map[string]http.Handler, error) {
	text, err := fs.ReadFile(files, "openapi/"+name+".swagger.json")
	if err != nil {
		return nil, fmt.Errorf("contract of %s: %w", name, err)
	}
	source, err := Read(name, text)
	if err != nil {
		return nil, err
	}
	d := New(title, "v1", description)
	d.SecuritySchemes["token"] = Object{"type": "http", "scheme": "bearer", "description": "A service token."}
	for path, methods := range source.Paths {
		for method := range methods {
			operation, _ := d.Import(source, method, path)
			operation["security"] = []any{Object{"token": []any{}}}
			d.Add(method, path, operation)
		}
	}
	document, err := d.JSON()
	if err != nil {
		return nil, err
	}
	return Handlers(document)
}

// Handlers returns the handlers of a document and its page, by path.
func Handlers(document []byte) (map[string]http.Handler, error) {
	page, err := Page(document)
	if err != nil {
		return nil, err
	}
	return map[string]http.Handler{DocumentPath: Fixed("application/json", document), PagePath: page}, nil
}
