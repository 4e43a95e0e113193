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

	"google.golang.org/protobuf/reflect/protoregistry"
)

// binary names the properties that really are base64.
var binary = map[string]bool{"ciphertext": true, "public_key": true}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: openapi FOLDER IMAGE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

// run finishes the documents in a folder by the contracts in an image, which `buf build` wrote with source info.
func run(folder, image string) error {
	contract, err := readContract(image)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.swagger.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := finish(file, contract); err != nil {
			return err
		}
	}
	codes, err := errorCodes(contract)
	if err != nil {
		return err
	}
	return write(filepath.Join(folder, "errors.json"), codes)
}

func finish(file string, contract *protoregistry.Files) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	free(document)
	name := strings.TrimSuffix(filepath.Base(file), ".swagger.json")
	document["info"] = map[string]string{"title": "Switchyard " + name, "version": "v1"}
	bound(document, contract, "switchyard."+name+".v1")
	return write(file, document)
}

func write(file string, document any) error {
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
