package control_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/control"
)

// Every parameter of an operators' list is named in a document of the edge. The refusal of an unknown one lists them.
func TestQueryParametersAreDocumented(t *testing.T) {
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("documents: %v, %v", paths, err)
	}
	var documents strings.Builder
	for _, path := range append(paths, "../../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		documents.Write(text)
	}
	x, lists := newWorld(t), 0
	for _, route := range control.Routes() {
		method, path, _ := strings.Cut(route, " ")
		if method != "GET" {
			continue
		}
		path = regexp.MustCompile(`\{[^}]+\}`).ReplaceAllString(path, "o")
		_, known, found := strings.Cut(x.do(t, method, path+"?no-such-parameter=1", operatorToken, "").Body.String(), "known parameters: ")
		if !found {
			continue
		}
		lists++
		for _, name := range regexp.MustCompile(`[a-z_]+`).FindAllString(known[:strings.IndexByte(known, '"')], -1) {
			if !regexp.MustCompile("[`?&]" + name + `\b`).MatchString(documents.String()) {
				t.Errorf("no document of the edge names the parameter %s of %s", name, route)
			}
		}
	}
	if lists < 5 {
		t.Errorf("%d lists name their parameters", lists)
	}
}
