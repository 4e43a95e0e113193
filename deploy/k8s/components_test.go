//go:build k8s

package k8s_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/deploy/dev/devtest"
)

// unordered compares lists without their order, which components give to variables, mounts and volumes.
var unordered = cmpopts.SortSlices(func(a, b any) bool { return fmt.Sprint(a) < fmt.Sprint(b) })

// The orders of components that the documents say, and others that they allow, make what the chart makes.
func TestComponentsInTheDocumentedOrders(t *testing.T) {
	listed := quoted(t, "../README.md", `(?s)Components are added by overlays in this order.*?:(.*?)\.\s`, "`([a-z-]+)`")
	listed = slices.DeleteFunc(listed, func(name string) bool { return slices.Contains([]string{"gateway-api", "keda", "signing-keys"}, name) })
	page := quoted(t, "../examples/start/cluster.md", `(?s)\ncomponents:\n(.*?)\nimages:`, `components/([a-z-]+)`)
	mtls := slices.Index(page, "mtls")
	if mtls < 0 {
		t.Fatalf("the page's overlay has the components %v", page)
	}
	for _, order := range [][]string{
		listed,
		slices.Insert(slices.Clone(page), mtls, "otel", "prometheus", "backlog"),
		{"spool-volumes", "backlog", "prometheus", "ingress", "mtls", "otel"},
	} {
		_, text := build(t, overlayOf(t, order))
		_, want := build(t, chartProduction)
		if diff := cmp.Diff(byName(t, text), byName(t, want), unordered); diff != "" {
			t.Errorf("%v differs from the chart (-kustomize +helm):\n%s", order, diff)
		}
	}
}

// A component that mtls would change is refused behind it: it would be without TLS.
func TestComponentsBehindMTLSAreRefused(t *testing.T) {
	for _, name := range []string{"gateway-api", "ingress", "prometheus"} {
		for _, order := range [][]string{{"mtls", name}, {"mtls", "spool-volumes", name}} {
			out, err := exec.CommandContext(t.Context(), devtest.Tool(t, "KUSTOMIZE"), "build", overlayOf(t, order)).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "components/"+name+"': testing value") {
				t.Errorf("%v: %v\n%.500s", order, err, out)
			}
		}
	}
}

// quoted returns the words of a pattern in the part of a document that another pattern finds.
func quoted(t *testing.T, path, part, word string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(part).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has nothing that matches %s", path, part)
	}
	for _, m := range regexp.MustCompile(word).FindAllSubmatch(found[1], -1) {
		all = append(all, string(m[len(m)-1]))
	}
	return all
}
