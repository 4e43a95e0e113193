package stack

import (
	"slices"
	"strings"
	"testing"
)

func planned(t *testing.T, fakes ...Fake) *Stack {
	t.Helper()
	s := &Stack{addresses: addresses{}, vault: vault{"/s"}, options: Options{Fakes: fakes}}
	for i, l := range listeners(nil, fakes) {
		s.addresses.set(l, "127.0.0.1:"+string(rune('1'+i%9))+"000")
	}
	return s
}

func TestSettings(t *testing.T) {
	user := environ{
		"PATH=/bin", "HTTPS_PROXY=http://proxy:3128", "OTEL_EXPORTER_OTLP_ENDPOINT=http://otel:4317",
		"SWITCHYARD_DATABASE_URL=postgres://admin:secret@db/x",
		"GATEWAY_EXTRA_PROVIDERS_FILE=/p.yaml", "GATEWAY_ALLOW_TARGETS=localhost:11434",
		"NOTIFY_WEB_PUSH_ENABLED=true", "NOTIFY_SOCKET=/run/systemd", "NOTIFY_URL=http://sourced", "GATEWAY_GRPC=sourced:1",
		"WEBHOOK_EGRESS_REQUIRE_HTTPS=true", "EDGE_LISTEN=:9999",
	}
	s := planned(t, FakeProvider, FakeWebhook)
	s.options.Env = map[Service][]string{
		WebhookEgress: {"WEBHOOK_EGRESS_MAX_ATTEMPTS=3"}, Edge: {"EDGE_USAGE_DAYS=2400h", "EDGE_USAGE_MINUTES=24h"}, Control: {"EDGE_USAGE_MINUTES=48h"},
	}
	provider, receiver := s.addresses["fakes provider"][faceHTTP], s.addresses["fakes webhook"][faceHTTP]

	tests := []struct {
		service Service
		want    map[string]string // "" is not set
	}{
		{Gateway, map[string]string{
			"PATH": "/bin", "HTTPS_PROXY": "http://proxy:3128", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4317",
			"SWITCHYARD_DATABASE_URL":      "",
			"GATEWAY_DATABASE_URL_FILE":    "/s/database/gateway.url",
			"GATEWAY_SERVICE_TOKENS_FILE":  "/s/tokens.yaml",
			"GATEWAY_REDIS_URL_FILE":       "/s/redis-url",
			"GATEWAY_DRAIN_DELAY":          "0s",
			"GATEWAY_EXTRA_PROVIDERS_FILE": "/p.yaml",
			"GATEWAY_ALLOW_TARGETS":        provider + ",localhost:11434",
			"GATEWAY_HTTP_LISTEN":          s.addresses["gateway"][faceHTTP],
			"GATEWAY_GRPC_LISTEN":          s.addresses["gateway"][faceGRPC],
			"GATEWAY_GRPC":                 "", "NOTIFY_WEB_PUSH_ENABLED": "", "EDGE_LISTEN": "",
		}},
		{WebhookEgress, map[string]string{
			"WEBHOOK_EGRESS_DATABASE_URL_FILE":   "/s/database/webhook.url",
			"WEBHOOK_EGRESS_ORG_SECRETS_DIR":     "/s/webhook-organizations",
			"WEBHOOK_EGRESS_DEFAULT_SECRET_FILE": "/s/webhook-default",
			"WEBHOOK_EGRESS_ALLOW_TARGETS":       receiver,
			"WEBHOOK_EGRESS_REQUIRE_HTTPS":       "true", // the user wins
			"WEBHOOK_EGRESS_MAX_ATTEMPTS":        "3",
		}},
		{Notify, map[string]string{
			"NOTIFY_WEB_PUSH_ENABLED": "true", "NOTIFY_SOCKET": "", "NOTIFY_URL": "",
			"NOTIFY_ALLOW_TARGETS": receiver,
		}},
		{Edge, map[string]string{
			"EDGE_LISTEN":             s.addresses["edge"][faceHTTP],
			"EDGE_METRICS_LISTEN":     s.addresses["edge"][faceMetrics],
			"EDGE_GATEWAY_URL":        s.URL("gateway"),
			"EDGE_WEBHOOK_EGRESS_URL": s.URL("webhook-egress"),
			"EDGE_NOTIFY_URL":         s.URL("notify"),
			"EDGE_SERVICE_TOKEN_FILE": "/s/edge-token",
			"EDGE_KEY_PEPPER_FILE":    "/s/edge-key-pepper",
			"EDGE_CONTROL_URL":        s.URL("control"),
			"EDGE_ALLOW_TARGETS":      "", "EDGE_GRPC_LISTEN": "", "EDGE_SPOOL_DIR": "",
		}},
		{Control, map[string]string{
			"EDGE_CONTROL_LISTEN":      s.addresses["control"][faceHTTP],
			"EDGE_DATABASE_URL_FILE":   "/s/database/edge.url",
			"EDGE_SERVICE_TOKENS_FILE": "/s/tokens.yaml",
			"EDGE_KEY_PEPPER_FILE":     "/s/edge-key-pepper",
			"EDGE_USAGE_DAYS":          "2400h", // as the edge has it
			"EDGE_USAGE_MINUTES":       "48h",
			"EDGE_PORTAL_URL":          s.URL("edge"),
			"EDGE_CONSOLE_URL":         s.URL("control"),
			"EDGE_GATEWAY_URL":         s.URL("gateway"),
			"EDGE_SERVICE_TOKEN_FILE":  "/s/edge-token",
			"EDGE_CONTROL_TOKEN_FILE":  "/s/control-token",
			"EDGE_WEBHOOK_EGRESS_URL":  s.URL("webhook-egress"),
			"EDGE_NOTIFY_URL":          s.URL("notify"),
		}},
	}
	for _, tt := range tests {
		t.Run(string(tt.service), func(t *testing.T) {
			got := environ(s.settings(tt.service, string(tt.service), user))
			for name, want := range tt.want {
				if got.lookup(name) != want {
					t.Errorf("%s=%q, want %q", name, got.lookup(name), want)
				}
			}
			if slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, "admin:secret") }) {
				t.Error("a service sees the administrator's URL")
			}
		})
	}
}

func TestSettingsOfAReplica(t *testing.T) {
	s := planned(t)
	s.options.Replicas = map[Service]int{Gateway: 2}
	for _, l := range listeners(s.options.Replicas, nil) {
		if l.member == "gateway-2" {
			s.addresses.set(l, "127.0.0.1:777"+string(rune('0'+len(l.face)%10)))
		}
	}
	got := environ(s.settings(Gateway, "gateway-2", nil))
	if address := got.lookup("GATEWAY_HTTP_LISTEN"); address != s.addresses["gateway-2"][faceHTTP] {
		t.Errorf("the second replica listens on %s", address)
	}
}

func TestLookupTakesTheLast(t *testing.T) {
	e := environ{"A=1", "AB=2", "A=3"}
	if got := e.lookup("A"); got != "3" {
		t.Errorf("A = %q, want 3, as a process would see it", got)
	}
	if got := e.lookup("B"); got != "" {
		t.Errorf("B = %q", got)
	}
}
