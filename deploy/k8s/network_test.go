//go:build k8s

package k8s_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Pods reach stores that are labelled in every namespace: a selector of pods alone would mean those of their own one.
func TestPodsReachStoresOfAllNamespaces(t *testing.T) {
	for _, overlay := range overlays(t) {
		_, text := build(t, overlay)
		found := 0
		for name, o := range byName(t, text) {
			rules, _ := at(o, "spec.egress").([]any)
			for i, rule := range rules {
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
					if i != 1 {
						t.Errorf("%s: overlays know the rule for stores as the second, and %s has it at %d", overlay, name, i)
					}
				}
			}
		}
		if want := 2*len(services) + 1; found != want { // each service and its migration, and control
			t.Errorf("%s: %d rules lead to stores, want %d", overlay, found, want)
		}
	}
}

// The page's patch lets pods reach the networks of stores as the chart's value does: services, control and migrations.
func TestOverlaysLeadToStores(t *testing.T) {
	const network = "10.20.0.0/16"
	patch := quoted(t, "../examples/start/cluster.md", `(?s)\n(  - target: {kind: NetworkPolicy.*?)\n  - target`, `(?s)^.*$`)
	dir := overlayOf(t, []string{"ingress", "otel", "prometheus", "backlog", "mtls", "spool-volumes"})
	file, err := os.OpenFile(filepath.Join(dir, "kustomization.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString("patches:\n" + strings.ReplaceAll(patch[0], "$STORES", network))
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	_, text := build(t, dir)
	want := byName(t, []byte(render(t, "stores: {networks: ["+network+"]}")[0].must(t)))
	if diff := cmp.Diff(byName(t, text), want); diff != "" {
		t.Errorf("the overlay differs from the chart (-kustomize +helm):\n%s", diff)
	}
	for _, name := range []string{"edge", "edge-migrate", "control"} {
		if got := fmt.Sprint(at(want["NetworkPolicy/"+name], "spec.egress.1.to.1")); got != "map[ipBlock:map[cidr:"+network+"]]" {
			t.Errorf("%s may reach %s, want the network of the stores", name, got)
		}
	}
}

// Services reach the ports of both stores, and migrations those of Postgres alone.
func TestPoliciesTakeThePortsOfStores(t *testing.T) {
	all := byName(t, []byte(render(t, "stores: {postgresPorts: [5432, 6432], redisPorts: [6380]}")[0].must(t)))
	for name, want := range map[string]string{
		"control": "[map[port:5432] map[port:6432] map[port:6380]]", "edge": "[map[port:5432] map[port:6432] map[port:6380]]",
		"edge-migrate": "[map[port:5432] map[port:6432]]",
	} {
		if got := fmt.Sprint(at(all["NetworkPolicy/"+name], "spec.egress.1.ports")); got != want {
			t.Errorf("%s may reach the ports %s of stores, want %s", name, got, want)
		}
	}
}

// Pods ask for names wherever their cluster answers: in pods, at the address of a Service, or at a link-local one.
func TestPodsReachEveryResolver(t *testing.T) {
	for _, overlay := range overlays(t) {
		_, text := build(t, overlay)
		found := 0
		for _, o := range byName(t, text) {
			rules, _ := at(o, "spec.egress").([]any)
			for _, rule := range rules {
				if at(rule, "to") == nil && fmt.Sprint(at(rule, "ports")) == "[map[port:53 protocol:UDP] map[port:53 protocol:TCP]]" {
					found++
				}
			}
		}
		if want := 2*len(services) + 1; found != want { // each service and its migration, and control
			t.Errorf("%s: %d policies lead to every resolver, want %d", overlay, found, want)
		}
	}
}

// What a service's settings name of another one it may reach: a policy lets it out, and one lets it in.
func TestPoliciesLetServicesReachEachOther(t *testing.T) {
	for _, overlay := range overlays(t) {
		_, text := build(t, overlay)
		all := byName(t, text)
		labels := make(map[string]any) // of pods, by workload
		for name, o := range all {
			if kind, of, _ := strings.Cut(name, "/"); kind == "Deployment" || kind == "StatefulSet" {
				labels[of] = at(o, "spec.template.metadata.labels")
			}
		}
		reached := 0
		for from := range labels {
			for to, port := range named(all, from) {
				if labels[to] == nil {
					t.Errorf("%s: %s names %s, which has no pods", overlay, from, to)
				}
				reached++
				if !lets(all, "egress", "to", labels[from], labels[to], port) || !lets(all, "ingress", "from", labels[to], labels[from], port) {
					t.Errorf("%s: no policy lets %s reach %s at port %s", overlay, from, to, port)
				}
			}
		}
		if reached < 9 { // four of the edge, three of control, one of gateway and of notify
			t.Errorf("%s: services name %d others", overlay, reached)
		}
		if lets(all, "egress", "to", labels["webhook-egress"], labels["notify"], "8103") || lets(all, "ingress", "from", labels["notify"], labels["webhook-egress"], "8103") {
			t.Errorf("%s: a policy lets webhook-egress reach notify, which it has no need to", overlay)
		}
	}
}

// named returns the Services that the settings of a workload's pods name, with the port of each.
func named(all map[string]any, workload string) map[string]string {
	found := make(map[string]string)
	for _, kind := range []string{"Deployment/", "StatefulSet/"} {
		env, _ := at(all[kind+workload], "spec.template.spec.containers.0.env").([]any)
		for _, e := range env {
			address, _ := at(e, "value").(string)
			if u, err := url.Parse(address); err == nil && u.Host != "" {
				address = u.Host
			}
			if host, port, err := net.SplitHostPort(address); err == nil && all["Service/"+host] != nil {
				found[host] = port
			}
		}
	}
	return found
}

// lets reports whether a policy of the pods with some labels lets connections pass in a direction, to or from other
// pods, at a port.
func lets(all map[string]any, direction, peers string, pods, others any, port string) bool {
	for name, policy := range all {
		if !strings.HasPrefix(name, "NetworkPolicy/") || !selected(at(policy, "spec.podSelector"), pods) {
			continue
		}
		rules, _ := at(policy, "spec."+direction).([]any)
		for _, rule := range rules {
			if !has(at(rule, "ports"), func(p any) bool { return fmt.Sprint(at(p, "port")) == port }) {
				continue
			}
			if at(rule, peers) == nil || has(at(rule, peers), func(p any) bool { return at(p, "podSelector") != nil && selected(at(p, "podSelector"), others) }) {
				return true
			}
		}
	}
	return false
}

// selected reports whether a selector by labels alone fits a pod's labels.
func selected(selector, labels any) bool {
	wanted, _ := at(selector, "matchLabels").(map[string]any)
	for key, value := range wanted {
		if have, _ := labels.(map[string]any); have[key] != value {
			return false
		}
	}
	return len(wanted) > 0
}

// has reports whether an element of a list fits.
func has(list any, fits func(any) bool) bool {
	all, _ := list.([]any)
	return slices.ContainsFunc(all, fits)
}
