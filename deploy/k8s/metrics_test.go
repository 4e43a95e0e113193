//go:build k8s

package k8s_test

import (
	"bytes"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Customers can't reach the edge's metrics: neither its Service nor the network policy that is open to all names the
// metrics' port. The monitor that scrapes them does.
func TestMetricsOfTheEdgeAreNotPublic(t *testing.T) {
	const port = "8081"
	for _, overlay := range overlays(t) {
		_, text := build(t, overlay)
		monitors := 0
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var o object
			if err := yaml.Unmarshal(document, &o); err != nil {
				t.Fatal(err)
			}
			switch body := string(document); {
			case o.Metadata.Name == "edge" && (o.Kind == "Service" || o.Kind == "NetworkPolicy" || o.Kind == "Ingress"):
				if strings.Contains(body, port) || strings.Contains(body, "metrics") {
					t.Errorf("%s: %s/edge leads to the metrics", overlay, o.Kind)
				}
			case o.Kind == "PodMonitor" && strings.Contains(body, "app.kubernetes.io/name: edge"):
				monitors++
				if !strings.Contains(body, "port: metrics") {
					t.Errorf("%s: the edge's metrics are scraped at another port", overlay)
				}
				if strings.HasSuffix(overlay, "production") && !strings.Contains(body, "scheme: https") {
					t.Errorf("%s: the edge's metrics are scraped without TLS", overlay)
				}
			}
		}
		if strings.HasSuffix(overlay, "production") && monitors != 1 {
			t.Errorf("%s: %d monitors of the edge, want 1", overlay, monitors)
		}
	}
}
