//go:build k8s

package k8s_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The HTTPRoute has the host, the paths and the port of the Ingress, and no bound for the time of a stream.
func TestRouteLeadsWhereTheIngressLeads(t *testing.T) {
	_, text := build(t, overlayOf(t, []string{"ingress", "gateway-api"}))
	all := byName(t, text)
	ingress, route := all["Ingress/edge"], all["HTTPRoute/edge"]
	if got, want := at(route, "spec.hostnames.0"), at(ingress, "spec.rules.0.host"); got != want {
		t.Errorf("the route's host is %v, the ingress' %v", got, want)
	}
	types := map[any]string{"Prefix": "PathPrefix", "Exact": "Exact"} // of the Ingress, and of the route
	var got, want []string
	paths, _ := at(ingress, "spec.rules.0.http.paths").([]any)
	for _, p := range paths {
		want = append(want, fmt.Sprint(types[at(p, "pathType")], " ", at(p, "path")))
	}
	matches, _ := at(route, "spec.rules.0.matches").([]any)
	for _, m := range matches {
		got = append(got, fmt.Sprint(at(m, "path.type"), " ", at(m, "path.value")))
	}
	if !slices.Equal(got, want) || len(got) < 7 {
		t.Errorf("the route leads to %q, the ingress to %q", got, want)
	}
	if to, port := at(route, "spec.rules.0.backendRefs.0"), at(all["Service/edge"], "spec.ports.0.port"); at(to, "name") != "edge" || at(to, "port") != port {
		t.Errorf("the route leads to %v; the edge's port is %v", to, port)
	}
	if bound := at(route, "spec.rules.0.timeouts.request"); bound != "0s" {
		t.Errorf("a request may take %v, want any time", bound)
	}
}

// With mutual TLS the Gateway calls the edge by TLS, by a name of its certificate and its authority; without it by HTTP.
func TestGatewayCallsTheEdgeByTLS(t *testing.T) {
	_, text := build(t, overlayOf(t, []string{"gateway-api"}))
	if byName(t, text)["BackendTLSPolicy/edge"] != nil {
		t.Error("without mutual TLS the Gateway calls the edge by TLS")
	}
	_, text = build(t, overlayOf(t, []string{"gateway-api", "mtls"}))
	all := byName(t, text)
	policy, certificate := all["BackendTLSPolicy/edge"], all["Certificate/edge"]
	if target := at(policy, "spec.targetRefs.0"); at(target, "kind") != "Service" || at(target, "name") != "edge" {
		t.Errorf("the policy is for %v", target)
	}
	if got, want := at(policy, "spec.validation.caCertificateRefs.0.name"), at(certificate, "spec.secretName"); got == nil || got != want {
		t.Errorf("the authority is in the Secret %v, want %v", got, want)
	}
	names, _ := at(certificate, "spec.dnsNames").([]any)
	if name := at(policy, "spec.validation.hostname"); !slices.Contains(names, name) {
		t.Errorf("the edge is called by the name %v; its certificate is for %v", name, names)
	}
	if strings.Contains(string(text), "local-config") {
		t.Error("what is left out elsewhere has its annotation still")
	}
}
