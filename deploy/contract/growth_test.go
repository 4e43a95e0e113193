package contract_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var fuzzFunc = regexp.MustCompile(`(?m)^func Fuzz([A-Za-z0-9]+)\(f \*testing\.F\)`)

// constantCost lists fuzz targets whose input has a fixed size: a number of four bytes.
var constantCost = []string{"services/gateway/internal/api AppendFloat"}

// Every parser of outside input has a fuzz target, and in the same package a test that its cost grows in proportion to
// the input, which `make bench` runs.
func TestFuzzTargetsGrowLinearly(t *testing.T) {
	fuzzed, grown := make(map[string]bool), make(map[string]bool)
	err := filepath.WalkDir("../../services", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		place := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../") + " "
		for _, match := range fuzzFunc.FindAllSubmatch(source, -1) {
			fuzzed[place+string(match[1])] = true
		}
		for _, match := range testFunc.FindAllSubmatch(source, -1) {
			if name, ok := strings.CutSuffix(strings.TrimPrefix(string(match[1]), "Test"), "GrowsLinearly"); ok {
				grown[place+name] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range constantCost {
		if !fuzzed[target] {
			t.Errorf("%s is no fuzz target", target)
		}
		delete(fuzzed, target)
	}
	for target := range fuzzed {
		if place, name, _ := strings.Cut(target, " "); !grown[target] {
			t.Errorf("%s: Fuzz%s has no Test%sGrowsLinearly beside it", place, name, name)
		}
	}
	if len(fuzzed) < 50 {
		t.Errorf("%d fuzz targets found", len(fuzzed))
	}
	for _, service := range []string{"gateway", "webhook-egress", "notify", "edge"} {
		if !grown["services/"+service+"/internal/api Routes"] {
			t.Errorf("%s has no TestRoutesGrowsLinearly", service)
		}
	}
}
