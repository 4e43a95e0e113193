package api_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/operations/probe"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

const goldenText = `
cases:
  - {name: echo, prompt: switchyard, contains: [switchyard]}
  - {name: json, prompt: anything, json_schema: {type: object}}
`

// newProber returns a prober of the bench's engine, for an organization of its own.
func (b *bench) newProber(engine probe.Engine) *probe.Prober {
	return probe.New(probe.Options{
		Engine: engine, Lease: postgres.NewProbeLease(b.pool), Budget: b.organizations, Organization: "probes", CeilingCents: 5,
		Golden: func() (*probe.Golden, error) { return probe.ParseGolden([]byte(goldenText)) },
		Defaults: func() []policy.Default {
			return []policy.Default{
				{Target: provider.Target{Provider: "first", Model: "down"}, Operation: provider.OperationChat},
				{Target: provider.Target{Provider: "keyless", Model: "nobody"}, Operation: provider.OperationChat},
				{Target: provider.Target{Provider: "sandbox", Model: "sandbox"}, Operation: provider.OperationChat},
				{Target: provider.Target{Provider: "sandbox", Model: "sandbox"}, Operation: provider.OperationEmbeddings},
			}
		},
		Log: slog.New(slog.DiscardHandler),
	})
}

func TestProbes(t *testing.T) {
	b := setup(t)
	report := b.get(t, "/v1/canary", "ops", "X-Request-Id", "req-c").fields(t, 200)
	if report["verdict"] != "pass" || report["exit_code"] != 0.0 || report["passed"] != 2.0 || report["provider"] != "sandbox" ||
		report["usage"].(map[string]any)["cost_cents"].(float64) <= 0 || len(report["cases"].([]any)) != 2 || report["golden_set_version"] == "" {
		t.Errorf("%v", report)
	}
	if n := b.rows(t, "operation = 'probe' AND organization_id = 'probes' AND service = 'ops' AND request_id LIKE 'req-c-%'"); n != 2 {
		t.Errorf("%d rows are marked", n)
	}
	b.recorded(t, "req-c-1", 1)
	failed := b.get(t, "/v1/canary?provider=first&model=down", "ops").fields(t, 200)
	if failed["verdict"] != "fail" || failed["exit_code"] != 1.0 || failed["failed"] != 2.0 || failed["cases"].([]any)[0].(map[string]any)["error_class"] != "server_error" {
		t.Errorf("%v", failed)
	}

	same := b.post(t, "/v1/canary/consistency", `{"prompt":"hello","count":3}`, "Authorization", "Bearer ops").fields(t, 200)
	if same["distinct"] != 1.0 || same["agreement"] != 1.0 || same["token_overlap"] != 1.0 || len(same["samples"].([]any)) != 3 {
		t.Errorf("%v", same)
	}

	alive := b.get(t, "/v1/models/liveness", "ops").fields(t, 200)
	var states []string
	for _, m := range alive["models"].([]any) {
		of := m.(map[string]any)
		states = append(states, fmt.Sprintf("%v %v %v %v", of["provider"], of["operation"], of["alive"], of["error"]))
	}
	if want := "first chat false server_error, keyless chat false missing_keys, sandbox chat true <nil>, sandbox embeddings true <nil>"; strings.Join(states, ", ") != want || alive["all_alive"] != false {
		t.Errorf("%v", states)
	}
	if one := b.get(t, "/v1/models/liveness?provider=SANDBOX", "ops").fields(t, 200); one["all_alive"] != true || one["cost_cents"].(float64) <= 0 {
		t.Errorf("%v", one)
	}
	client := gatewayv1.NewProbeServiceClient(b.conn)
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer ops"))
	if got, err := client.RunCanary(ctx, &gatewayv1.RunCanaryRequest{Provider: "sandbox"}); err != nil || got.GetVerdict() != "pass" {
		t.Errorf("%v %v", got, err)
	}
}

func TestProbesRefuse(t *testing.T) {
	b := setup(t)
	for _, token := range []string{"svc", "sup"} {
		b.get(t, "/v1/canary", token).refused(t, 403, "forbidden", "")
		b.get(t, "/v1/models/liveness", token).refused(t, 403, "forbidden", "")
		b.post(t, "/v1/canary/consistency", `{"prompt":"x","count":2}`, "Authorization", "Bearer "+token).refused(t, 403, "forbidden", "")
	}
	ops := []string{"Authorization", "Bearer ops"}
	b.post(t, "/v1/canary/consistency", `{"prompt":"x","count":1}`, ops...).refused(t, 400, "invalid_request", "count")
	b.post(t, "/v1/canary/consistency", `{"count":2}`, ops...).refused(t, 400, "invalid_request", "prompt")
	b.post(t, "/v1/canary/consistency", `{"prompt":"x","count":2,"max_tokens":5000}`, ops...).refused(t, 400, "invalid_request", "max_tokens")
	b.get(t, "/v1/models/liveness?provider=absent", "ops").refused(t, 404, "not_found", "provider")

	if _, err := b.pool.Exec(t.Context(), "INSERT INTO probe_lease (holder, kind, taken_at, until) VALUES (gen_random_uuid(), 'liveness', now(), now() + interval '1 min')"); err != nil {
		t.Fatal(err)
	}
	b.get(t, "/v1/canary", "ops").refused(t, 409, "probe_running", "liveness, since")
	if _, err := b.pool.Exec(t.Context(), "DELETE FROM probe_lease"); err != nil {
		t.Fatal(err)
	}
	// A ceiling that is too low for any call: the cost is reserved before the call.
	if err := b.organizations.SetBudget(t.Context(), "probes", organization.Budget{CeilingCents: 1e-9, Period: organization.PeriodDay}, ""); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(5 * time.Second)
	for {
		reply := b.get(t, "/v1/canary", "ops")
		if reply.status == 403 {
			reply.refused(t, 403, "budget_exceeded", "budget")
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d %s", reply.status, reply.body)
		}
	}
}
