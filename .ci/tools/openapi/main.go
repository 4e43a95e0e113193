// Command openapi finishes the OpenAPI documents that protoc-gen-openapiv2
// wrote into a folder. In Switchyard's contracts a bytes field is free JSON but
// for those in binary (a test holds them to it); the plugin can only describe
// it as a base64 string. Here such properties become schemas that take any JSON
// value, and the document gets its name. `make gen` calls it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// binary names the properties that really are base64.
var binary = map[string]bool{"ciphertext": true, "public_key": true}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: openapi FOLDER")
		os.Exit(2)
	}
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.swagger.json"))
	for _, file := range files {
		if err == nil {
			err = finish(file)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func finish(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	free(document)
	if top, ok := document.(map[string]any); ok {
		name := strings.TrimSuffix(filepath.Base(file), ".swagger.json")
		top["info"] = map[string]string{"title": "Switchyard " + name, "version": "v1"}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// free takes the type off every schema that is a base64 string, at any depth.
func free(node any) {
	switch n := node.(type) {
	case map[string]any:
		if n["type"] == "string" && n["format"] == "byte" {
			delete(n, "type")
			delete(n, "format")
		}
		for name, child := range n {
			if !binary[name] {
				free(child)
			}
		}
	case []any:
		for _, child := range n {
			free(child)
		}
	}
}
