//go:build k8s

package k8s_test

import (
	"strings"
	"testing"
)

// Pods reach stores that are labelled in every namespace: a selector of pods alone would mean those of their own one.
func TestPodsReachStoresOfAllNamespaces(t *testing.T) {
	for _, overlay := range overlays(t) {
		_, text := build(t, overlay)
		found := 0
		for name, o := range byName(t, text) {
			rules, _ := at(o, "spec.egress").([]any)
			for _, rule := range rules {
				peers, _ := at(rule, "to").([]any)
				for _, peer := range peers {
					labels, _ := at(peer, "podSelector.matchLabels").(map[string]any)
					if !strings.HasPrefix(name, "NetworkPolicy/") || labels["switchyard.dev/store"] != "true" {
						continue
					}
					found++
					if all, ok := at(peer, "namespaceSelector").(map[string]any); !ok || len(all) > 0 {
						t.Errorf("%s: %s lets pods reach stores of their own namespace only", overlay, name)
					}
				}
			}
		}
		if want := 2*len(services) + 1; found != want { // each service and its migration, and control
			t.Errorf("%s: %d rules lead to stores, want %d", overlay, found, want)
		}
	}
}
