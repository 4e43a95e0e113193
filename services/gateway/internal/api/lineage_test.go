package api_test

import "testing"

// Lineage records how the plan was made and each called vendor's own request id.
func TestLineageOfACall(t *testing.T) {
	b := setup(t)
	for id, tt := range map[string]struct {
		path, body, route string
		vendors           []any
	}{
		"whole":      {chatPath, `{"model":"first/ok",` + messages + `}`, "requested", []any{vendorID("ok")}},
		"streamed":   {chatPath, `{"model":"first/ok","stream":true,` + messages + `}`, "requested", []any{vendorID("ok")}},
		"cut":        {chatPath, `{"model":"first/cut","stream":true,` + messages + `}`, "requested", []any{vendorID("cut")}},
		"failover":   {chatPath, `{"model":"first/down",` + messages + `}`, "requested", []any{vendorID("down"), vendorID("spare")}},
		"affinity":   {chatPath, `{"model":"shared","allow_substitution":false,"run_id":"r1",` + messages + `}`, "affinity", nil},
		"policy":     {chatPath, `{` + messages + `}`, "policy", []any{nil}}, // The sandbox has no vendor.
		"embeddings": {"/v1/embeddings", `{"model":"first/vectors","input":"x"}`, "requested", []any{vendorID("vectors")}},
		"images":     {"/v1/images/generations", `{"model":"first/ok","prompt":"x"}`, "requested", []any{vendorID("ok")}},
	} {
		b.post(t, tt.path, tt.body, "X-Request-Id", id)
		b.recorded(t, id, 1)
		event := b.get(t, "/v1/lineage/"+id+"?organization_id=acme", "svc").fields(t, 200)
		if event["route"] != tt.route {
			t.Errorf("%s: route %v, want %s", id, event["route"], tt.route)
		}
		attempts, _ := event["attempts"].([]any)
		for i, want := range tt.vendors {
			if len(attempts) != len(tt.vendors) || attempts[i].(map[string]any)["provider_request_id"] != want {
				t.Errorf("%s: attempts %v, want the ids %v", id, attempts, tt.vendors)
				break
			}
		}
	}
}
