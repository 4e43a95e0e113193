//go:build k8s

package k8s_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// leads reports whether the rule has a path for a request's.
func (r rule) leads(path string) bool {
	for _, p := range r.HTTP.Paths {
		if path == p.Path || p.PathType == "Prefix" && strings.HasPrefix(path, p.Path+"/") {
			return true
		}
	}
	return false
}

// The ingress leads to all that customers call and read and to the links that people get, and to nothing of operators.
func TestIngressLeadsToWhatIsPublic(t *testing.T) {
	public := []string{
		"/product/v1/ai/chat", "/product/v1/_meta/catalog", "/docs", "/docs/start/cluster.html", "/openapi.json",
		"/portal/open/secret", "/portal/", "/decisions/token", "/v1/decisions/token", "/slack/interactions",
	}
	inside := []string{"/", "/admin/v1/keys", "/console/", "/metrics", "/health/ready", "/v1/usage", "/portals", "/product/v10", "/slack/interactions/x"}
	for _, overlay := range overlays(t) {
		all, _ := build(t, overlay)
		i, found := find(all, "Ingress", "edge")
		if !found {
			continue
		}
		for _, path := range append(slices.Clone(public), inside...) {
			if got, want := i.Spec.Rules[0].leads(path), slices.Contains(public, path); got != want {
				t.Errorf("%s: the ingress leads to %s: %t, want %t", overlay, path, got, want)
			}
		}
	}
}

// The ingress takes the bodies that the edge takes.
func TestIngressTakesTheBodiesOfTheEdge(t *testing.T) {
	all, _ := build(t, "overlays/production")
	ingress, _ := find(all, "Ingress", "edge")
	edge, _ := find(all, "Deployment", "edge")
	out, err := configOf(t, edge)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var mebibytes int
	if _, err := fmt.Sscanf(ingress.Metadata.Annotations["nginx.ingress.kubernetes.io/proxy-body-size"], "%dm", &mebibytes); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\nEDGE_MAX_BODY=%d\n", mebibytes<<20); !strings.Contains(string(out), want) {
		t.Errorf("the ingress takes bodies of %d MiB; the edge doesn't say %q", mebibytes, want)
	}
}
