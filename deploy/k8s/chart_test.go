//go:build k8s

package k8s_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"switchyard.dev/deploy/dev/devtest"
)

// chart is the Helm chart that is made from the manifests.
const chart = "../helm/switchyard"

// What keeps the rules of overlays, too: the chart with its own values, and with those of the overlay without volumes.
const (
	chartProduction = "chart/production"
	chartStateless  = "chart/production-stateless"
)

var charts = map[string]string{chartProduction: "", chartStateless: "components: {spoolVolumes: false}"}

// namespace is that of the overlays, and the release's in these tests.
const namespace = "switchyard"

// A rendering is what Helm makes of the chart and some values.
type rendering struct{ Objects, Error string }

func (r rendering) must(t *testing.T) string {
	t.Helper()
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	return r.Objects
}

// helm renders the chart with each of some values, given as YAML, and lints it.
func helm(t *testing.T, values ...string) (all []rendering, lint []string) {
	t.Helper()
	folder, err := filepath.Abs(chart)
	if err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(map[string]any{"chart": folder, "namespace": namespace, "kube_version": "1.30.0", "values": values})
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), devtest.Tool(t, "HELM"))
	run.Stdin = bytes.NewReader(request)
	var complaints bytes.Buffer
	run.Stderr = &complaints
	out, err := run.Output()
	if err != nil {
		t.Fatalf("helm: %v\n%s", err, complaints.String())
	}
	var response struct {
		Lint    []string
		Results []rendering
	}
	if err := json.Unmarshal(out, &response); err != nil || len(response.Results) != len(values) {
		t.Fatalf("helm: %v, %d results of %d", err, len(response.Results), len(values))
	}
	return response.Results, response.Lint
}

func render(t *testing.T, values ...string) []rendering {
	t.Helper()
	all, _ := helm(t, values...)
	return all
}

// byName returns objects by kind and name. The Namespace is left out: Helm has the release's.
func byName(t *testing.T, text []byte) map[string]any {
	t.Helper()
	all := make(map[string]any)
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o map[string]any
		switch err := decoder.Decode(&o); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatalf("%v\n%s", err, text)
		case o == nil || o["kind"] == "Namespace":
			continue
		}
		id := fmt.Sprintf("%s/%s", o["kind"], o["metadata"].(map[string]any)["name"])
		if all[id] != nil {
			t.Errorf("%s is there twice", id)
		}
		all[id] = o
	}
}

// The chart is the manifests: with its own values the overlay production, and with its components on and off an overlay
// with the same ones. Objects are compared by kind and name, and in them everything.
func TestChartEqualsOverlays(t *testing.T) {
	const none = "ingress: false, otel: false, prometheus: false, mtls: false, spoolVolumes: false, backlog: none"
	cases := []struct {
		overlay    string
		components []string // of an overlay that is made for the case
		values     string
	}{
		{"overlays/production", nil, ""},
		{"overlays/production-stateless", nil, "components: {spoolVolumes: false}"},
		{"", []string{}, "components: {" + none + "}"},
		{"", []string{"keda", "spool-volumes"}, "components: {ingress: false, otel: false, prometheus: false, mtls: false, backlog: keda}"},
		{"", []string{"prometheus", "keda", "mtls", "signing-keys"}, "components: {ingress: false, otel: false, spoolVolumes: false, backlog: keda, signingKeys: true}"},
		{"", []string{"ingress", "backlog", "signing-keys", "spool-volumes"}, "components: {otel: false, prometheus: false, mtls: false, signingKeys: true}"},
		{"", []string{"gateway-api", "mtls"}, "components: {ingress: false, otel: false, prometheus: false, spoolVolumes: false, backlog: none, gatewayApi: true}"},
		{"", []string{"ingress", "gateway-api"}, "components: {otel: false, prometheus: false, mtls: false, spoolVolumes: false, backlog: none, gatewayApi: true}"},
		{"", []string{"ingress", "otel", "mtls", "spool-volumes"}, "components: {prometheus: false, backlog: none}"},
	}
	var values []string
	for _, c := range cases {
		values = append(values, c.values)
	}
	for i, r := range render(t, values...) {
		c := cases[i]
		overlay := c.overlay
		if overlay == "" {
			overlay = overlayOf(t, c.components)
		}
		_, text := build(t, overlay)
		if diff := cmp.Diff(byName(t, text), byName(t, []byte(r.must(t)))); diff != "" {
			t.Errorf("%s %s: the chart with %q differs (-kustomize +helm):\n%s", c.overlay, c.components, c.values, diff)
		}
	}
}

// overlayOf returns a folder with an overlay of the base and some components, in production's namespace with its images.
func overlayOf(t *testing.T, components []string) string {
	t.Helper()
	dir := t.TempDir()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	here, err = filepath.Rel(dir, here) // kustomize takes other folders by relative paths only
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: %s\nresources: [%s/base]\ncomponents:\n", namespace, here)
	for _, name := range components {
		fmt.Fprintf(&text, "  - %s/components/%s\n", here, name)
	}
	text.WriteString("images:\n")
	for _, service := range services {
		fmt.Fprintf(&text, "  - {name: switchyard/%s, newName: registry.example.com/switchyard/%s, newTag: v0.1.0}\n", service, service)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Helm's linter has nothing to say but that there is no picture.
func TestChartIsClean(t *testing.T) {
	_, lint := helm(t)
	for _, message := range lint {
		if !strings.HasPrefix(message, "[INFO]") {
			t.Error(message)
		}
	}
}

// With KEDA webhook-egress has one autoscaler, KEDA's, with the bounds and the target of the other one.
func TestKEDAScalesInstead(t *testing.T) {
	_, text := build(t, overlayOf(t, []string{"keda"}))
	_, other := build(t, overlayOf(t, []string{"backlog"}))
	all, before := byName(t, text), byName(t, other)
	if all["HorizontalPodAutoscaler/webhook-egress"] != nil {
		t.Error("webhook-egress has two autoscalers")
	}
	for _, pair := range [][2]string{
		{"spec.minReplicaCount", "spec.minReplicas"},
		{"spec.maxReplicaCount", "spec.maxReplicas"},
		{"spec.scaleTargetRef", "spec.scaleTargetRef"},
		{"spec.triggers.0.metadata.value", "spec.metrics.0.resource.target.averageUtilization"},
		{"spec.triggers.1.metadata.threshold", "spec.metrics.1.external.target.value"},
		{"spec.advanced.horizontalPodAutoscalerConfig.behavior", "spec.behavior"},
	} {
		got, want := at(all["ScaledObject/webhook-egress"], pair[0]), at(before["HorizontalPodAutoscaler/webhook-egress"], pair[1])
		if got == nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v as in the autoscaler", pair[0], got, want)
		}
	}
}
