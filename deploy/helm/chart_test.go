//go:build k8s

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The chart is what the manifests make: no template is edited by hand, and none is left that nothing makes.
func TestChartIsMadeFromTheManifests(t *testing.T) {
	files, err := generate(t.Context(), "../k8s", os.Getenv("KUSTOMIZE"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("switchyard", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(got), string(want)); diff != "" {
			t.Errorf("%s is not what `make chart` makes (-is +made):\n%s", name, diff)
		}
	}
	templates, err := filepath.Glob("switchyard/templates/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range templates {
		if name, _ := filepath.Rel("switchyard", path); files[name] == nil {
			t.Errorf("nothing makes %s", path)
		}
	}
}
