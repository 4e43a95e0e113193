package stack

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestListenersAreThoseOfTheDesign(t *testing.T) {
	got := map[string]int{}
	for _, l := range listeners(nil, AllFakes) {
		got[l.setting] = l.port
	}
	want := map[string]int{
		"EDGE_LISTEN": 8080, "EDGE_METRICS_LISTEN": 8081, "EDGE_CONTROL_LISTEN": 8082,
		"GATEWAY_HTTP_LISTEN": 8101, "GATEWAY_GRPC_LISTEN": 9101,
		"WEBHOOK_EGRESS_HTTP_LISTEN": 8102, "WEBHOOK_EGRESS_GRPC_LISTEN": 9102,
		"NOTIFY_HTTP_LISTEN": 8103, "NOTIFY_DEMO_LISTEN": 8104, "NOTIFY_GRPC_LISTEN": 9103,
		"FAKES_PROVIDER_LISTEN": 8190, "FAKES_WEBHOOK_LISTEN": 8191, "FAKES_SLACK_LISTEN": 8192,
		"FAKES_PUSH_LISTEN": 8193, "FAKES_SMTP_LISTEN": 8194, "FAKES_SMTP_CONTROL_LISTEN": 8195, "FAKES_TARPIT_LISTEN": 8196,
		"FAKES_HOSTILE_PROVIDER_LISTEN": 8197, "FAKES_HOSTILE_WEBHOOK_LISTEN": 8198, "FAKES_HOSTILE_PUSH_LISTEN": 8199,
		"FAKES_IDENTITY_LISTEN": 8200, "FAKES_GUARDED_PROVIDER_LISTEN": 8201,
		"FAKES_BILLING_LISTEN": 8202, "FAKES_TOOLS_LISTEN": 8203,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReplicasHaveNamesOfTheirOwn(t *testing.T) {
	var names []string
	for _, l := range listeners(map[Service]int{WebhookEgress: 3, Edge: 2}, []Fake{FakeWebhook}) {
		if l.face == faceHTTP {
			names = append(names, l.member)
		}
	}
	want := []string{
		"gateway", "webhook-egress", "webhook-egress-2", "webhook-egress-3", "notify", "edge", "edge-2", "control", "fakes webhook",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, l := range listeners(map[Service]int{Control: None}, nil) {
		if l.member == string(Control) {
			t.Errorf("%s, which is left out, listens at %s", l.member, l.setting)
		}
	}
}

func TestProgramsAndSchemas(t *testing.T) {
	tests := []struct {
		service                 Service
		program, schema, prefix string
	}{
		{Gateway, "./services/gateway/cmd/gateway", "gateway", "GATEWAY_"},
		{WebhookEgress, "./services/webhook-egress/cmd/webhook-egress", "webhook", "WEBHOOK_EGRESS_"},
		{Notify, "./services/notify/cmd/notify", "notify", "NOTIFY_"},
		{Edge, "./services/edge/cmd/edge", "edge", "EDGE_"},
		{Control, "./services/edge/cmd/edge", "edge", "EDGE_"},
	}
	for _, tt := range tests {
		t.Run(string(tt.service), func(t *testing.T) {
			if got := tt.service.program(); got != tt.program {
				t.Errorf("program %s, want %s", got, tt.program)
			}
			if got := tt.service.schema(); got != tt.schema {
				t.Errorf("schema %s, want %s", got, tt.schema)
			}
			if got := tt.service.prefix(); got != tt.prefix {
				t.Errorf("prefix %s, want %s", got, tt.prefix)
			}
		})
	}
}
