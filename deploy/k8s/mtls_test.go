//go:build k8s

package k8s_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// With mutual TLS every service presents its own certificate, requires one of its callers (except the edge and its
// control), and is called by a name in its certificate.
func TestMutualTLSIsWhole(t *testing.T) {
	const overlay = "overlays/production"
	all, _ := build(t, overlay)
	for _, service := range append([]string{control}, services...) {
		deployment, _ := find(all, kindOf(overlay, service), service)
		c, prefix := deployment.Spec.Template.Spec.Containers[0], strings.ToUpper(strings.ReplaceAll(deployment.program(), "-", "_"))+"_"
		needs := []string{"TLS_CERT_FILE", "TLS_KEY_FILE", "TLS_CLIENT_CA_FILE"}
		switch service {
		case control, "edge": // their callers are operators, who have tokens, and customers
			needs = []string{"TLS_CERT_FILE", "TLS_KEY_FILE", "UPSTREAM_TLS_CERT_FILE", "UPSTREAM_TLS_KEY_FILE", "UPSTREAM_TLS_CA_FILE"}
		}
		for _, name := range needs {
			if !strings.HasPrefix(c.value(prefix+name), "/mtls/") {
				t.Errorf("%s: %s is %q", service, prefix+name, c.value(prefix+name))
			}
		}
		for _, p := range []*probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if p.HTTPGet.Scheme != "HTTPS" {
				t.Errorf("%s: a probe uses the scheme %q", service, p.HTTPGet.Scheme)
			}
		}
		certificate, _ := find(all, "Certificate", service)
		if volumes := deployment.Spec.Template.Spec.Volumes; !slices.ContainsFunc(volumes, func(v volume) bool { return v.Secret != nil && v.Secret.SecretName == certificate.Spec.SecretName }) {
			t.Errorf("%s mounts no certificate: %+v", service, volumes)
		}
		if !slices.Contains(certificate.Spec.DNSNames, service) || !slices.Contains(certificate.Spec.DNSNames, "switchyard") {
			t.Errorf("the certificate of %s is for %v", service, certificate.Spec.DNSNames)
		}
		calls := slices.ContainsFunc(c.Env, func(v variable) bool {
			return strings.HasSuffix(v.Name, "_TLS_CERT_FILE") && v.Name != prefix+"TLS_CERT_FILE"
		})
		if calls && !slices.Contains(certificate.Spec.Usages, "client auth") {
			t.Errorf("%s calls others with its certificate, whose usages are %v", service, certificate.Spec.Usages)
		}
	}
	for service, urls := range map[string][]string{
		"edge":  {"EDGE_CONTROL_URL", "EDGE_GATEWAY_URL", "EDGE_WEBHOOK_EGRESS_URL", "EDGE_NOTIFY_URL"},
		control: {"EDGE_GATEWAY_URL", "EDGE_WEBHOOK_EGRESS_URL", "EDGE_NOTIFY_URL"},
	} {
		caller, _ := find(all, kindOf(overlay, service), service)
		for _, name := range urls {
			to, err := url.Parse(caller.Spec.Template.Spec.Containers[0].value(name))
			if err != nil || to.Scheme != "https" || to.Hostname() != control && !slices.Contains(services, to.Hostname()) {
				t.Errorf("%s: %s is %v, %v", service, name, to, err)
			}
		}
	}
	notify, _ := find(all, "Deployment", "notify")
	if c := notify.Spec.Template.Spec.Containers[0]; c.value("NOTIFY_WEBHOOK_EGRESS_TLS") != "true" || c.value("NOTIFY_WEBHOOK_EGRESS_TLS_CERT_FILE") == "" {
		t.Error("notify calls webhook-egress without a certificate")
	}
	gateway, _ := find(all, kindOf(overlay, "gateway"), "gateway")
	if c := gateway.Spec.Template.Spec.Containers[0]; c.value("GATEWAY_EVENTS_EGRESS_TLS") != "true" || c.value("GATEWAY_EVENTS_EGRESS_TLS_CERT_FILE") == "" {
		t.Error("the gateway calls webhook-egress without a certificate")
	}
}

// value returns the value of an environment variable.
func (c container) value(name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}
