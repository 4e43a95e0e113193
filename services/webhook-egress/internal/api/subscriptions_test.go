package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/api"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/replay"
)

var (
	moment = time.Unix(1700000000, 0)
	anID   = delivery.NewID(moment)
	same   = cmp.Comparer(func(a, b secret.Value) bool { return a.Reveal() == b.Reveal() })
)

const canary = "canary-signing-secret-1"

func TestRegisterEndpoint(t *testing.T) {
	d := &domain{endpoint: endpoint.Endpoint{
		ID: anID, Organization: "acme", Owner: "ann", URL: "https://example.com/x", EventTypes: []string{"*"}, Active: true,
		SigningMode: "endpoint_body", Secret: []byte(canary), Created: moment, Updated: moment, RatePerSecond: 2.5,
		Filter: "true", Warnings: []string{"a warning"}, Earlier: []delivery.EarlierSecret{{Sealed: []byte(canary), Until: moment}},
	}}
	body := `{"url":"https://example.com/x","event_types":["*"],"signing_mode":"endpoint_body","signing_secret":"` + canary + `","rate_limit_per_second":2.5,"description":"n","filter":"true"}`
	w, document := call(t, newServer(t, d).Handler(), "POST", "/v1/endpoints", body, "X-Organization-Id", "acme", "X-Owner-Id", "ann")
	want := map[string]any{
		"endpoint_id": anID.String(), "organization_id": "acme", "owner_id": "ann", "url": "https://example.com/x", "event_types": []any{"*"},
		"active": true, "signing_mode": "endpoint_body", "created_at": "2023-11-14T22:13:20Z", "updated_at": "2023-11-14T22:13:20Z",
		"rate_limit_per_second": 2.5, "description": "", "previous_secret_expires_at": nil, "disabled_reason": nil, "disabled_at": nil,
		"failing_since": nil, "custom_header_names": []any{}, "auth": nil, "generated_secret": nil, "signatures": []any{}, "filter": "true",
		"earlier_secrets_expire_at": []any{}, "warnings": []any{"a warning"}, "status": "active",
	}
	if diff := cmp.Diff(want, document); diff != "" || w.Code != http.StatusCreated {
		t.Errorf("status %d, answer (-want +got):\n%s", w.Code, diff)
	}
	testkit.NoLeak(t, canary, w.Body.String())
	asked := endpoint.Registration{
		Scope: endpoint.Scope{Organization: "acme", Owner: "ann"}, URL: "https://example.com/x", EventTypes: []string{"*"},
		SigningMode: "endpoint_body", Secret: secret.New(canary), RatePerSecond: 2.5, Description: "n", Filter: "true",
	}
	if diff := cmp.Diff(asked, d.asked[0], same); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestUpdateEndpoint(t *testing.T) {
	d := &domain{endpoint: endpoint.Endpoint{ID: anID, Earlier: []delivery.EarlierSecret{{Until: time.Now().Add(time.Hour)}}}}
	h := newServer(t, d).Handler()
	w, document := call(t, h, "PATCH", "/v1/endpoints/x", `{"active":false,"signing_secret":"`+canary+`","secret_overlap_seconds":0,"url":"https://a.b","rate_limit_per_second":0,"description":"","event_types":["a"],"filter":""}`)
	if w.Code != http.StatusOK || document["previous_secret_expires_at"] == nil {
		t.Errorf("status %d, %v", w.Code, document)
	}
	call(t, h, "PATCH", "/v1/endpoints/x", `{}`, "X-Owner-Id", "ann")
	want := []any{
		[]any{endpoint.Scope{Organization: "default"}, "x", endpoint.Update{
			URL: new("https://a.b"), EventTypes: []string{"a"}, Active: new(false), Secret: secret.New(canary), Overlap: new(time.Duration(0)),
			RatePerSecond: new(0.0), Description: new(""), Filter: new(""),
		}},
		[]any{endpoint.Scope{Organization: "default", Owner: "ann"}, "x", endpoint.Update{}},
	}
	if diff := cmp.Diff(want, d.asked, same); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if w, document := call(t, h, "PATCH", "/v1/endpoints/x", `{"signing_mode":"org_timestamp"}`); w.Code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(document["reason"]), "signing_mode") {
		t.Errorf("the mode was taken: %d, %v", w.Code, document)
	}
}

// The ends of earlier secrets are those that are to come; the one that was replaced last has a field of its own.
func TestEndsOfEarlierSecrets(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second) // The contract writes fractions with three, six or nine digits.
	soon, later, past := now.Add(time.Hour), now.Add(2*time.Hour), now.Add(-time.Second)
	for name, tt := range map[string]struct {
		ends     []time.Time
		previous any
		all      []any
	}{
		"none":              {nil, nil, []any{}},
		"all to come":       {[]time.Time{soon, later}, soon.Format(time.RFC3339Nano), []any{soon.Format(time.RFC3339Nano), later.Format(time.RFC3339Nano)}},
		"the last has gone": {[]time.Time{past, later}, nil, []any{later.Format(time.RFC3339Nano)}},
		"an older has gone": {[]time.Time{soon, past}, soon.Format(time.RFC3339Nano), []any{soon.Format(time.RFC3339Nano)}},
		"all have gone":     {[]time.Time{past, past}, nil, []any{}},
	} {
		t.Run(name, func(t *testing.T) {
			e := endpoint.Endpoint{ID: anID}
			for _, end := range tt.ends {
				e.Earlier = append(e.Earlier, delivery.EarlierSecret{Sealed: []byte(canary), Until: end})
			}
			w, document := call(t, newServer(t, &domain{endpoint: e}).Handler(), "GET", "/v1/endpoints/x", "")
			testkit.NoLeak(t, canary, w.Body.String())
			got := []any{document["previous_secret_expires_at"], document["earlier_secrets_expire_at"]}
			if diff := cmp.Diff([]any{tt.previous, tt.all}, got); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadAndDeleteEndpoints(t *testing.T) {
	d := &domain{endpoint: endpoint.Endpoint{ID: anID, EventTypes: []string{"a"}}, nextID: anID}
	h := newServer(t, d).Handler()
	_, document := call(t, h, "GET", "/v1/endpoints?limit=1&active=false&event_type=a.b", "", "X-Owner-Id", "ann")
	next, _ := document["next_cursor"].(string)
	if list, _ := document["endpoints"].([]any); len(list) != 1 || next == "" {
		t.Fatalf("list %v", document)
	}
	call(t, h, "GET", "/v1/endpoints?cursor="+next, "")
	call(t, h, "GET", "/v1/endpoints/e1", "", "X-Owner-Id", "ann")
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, "/v1/endpoints/e1", nil)
	w := serve(h, r)
	if w.Code != http.StatusNoContent {
		t.Errorf("delete: %d %q", w.Code, w.Body)
	}
	want := []any{
		[]any{endpoint.Filter{Scope: endpoint.Scope{Organization: "default", Owner: "ann"}, Active: new(false), EventType: "a.b"}, delivery.LastID, 1},
		[]any{endpoint.Filter{Scope: endpoint.Scope{Organization: "default"}}, anID, 50},
		[]any{endpoint.Scope{Organization: "default", Owner: "ann"}, "e1"},
		[]any{endpoint.Scope{Organization: "default"}, "e1"},
	}
	if diff := cmp.Diff(want, d.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestTestEndpoint(t *testing.T) {
	d := &domain{record: delivery.Record{ID: anID, Status: delivery.StatusFailed}, attempts: []delivery.Attempt{{Number: 1, Outcome: delivery.OutcomeFailed, Started: moment}}}
	h := newServer(t, d).Handler()
	_, document := call(t, h, "POST", "/v1/endpoints/e1/test", `{"event_type":"a","payload":{"b": 1}}`)
	attempt, _ := document["attempt"].(map[string]any)
	if attempt["delivery_id"] != anID.String() || attempt["outcome"] != "failed" {
		t.Errorf("answer %v", document)
	}
	if diff := cmp.Diff([]any{endpoint.Scope{Organization: "default"}, "e1", endpoint.Test{EventType: "a", Payload: []byte(`{"b": 1}`)}}, d.asked[0]); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	d.attempts = nil
	if _, document := call(t, h, "POST", "/v1/endpoints/e1/test", ""); document["attempt"] != nil {
		t.Errorf("without an attempt: %v", document)
	}
}

func TestEmitEvent(t *testing.T) {
	d := &domain{result: event.Result{ID: anID, SkippedPaused: 2, SkippedFiltered: 3, Deliveries: []event.Fanned{{Delivery: anID, Endpoint: anID, FilterError: "cost_exceeded"}}}}
	h := newServer(t, d).Handler()
	w, document := call(t, h, "POST", "/v1/events", `{"event_type":"a.b","payload":{"z": 1},"custom_headers":{"X-A":"b"},"max_attempts":3,"deadline_at":"2023-11-14T22:13:20Z","ordering_key":"o"}`, "Idempotency-Key", "k", "X-Owner-Id", "ann")
	want := map[string]any{
		"event_id": anID.String(), "matched": 1.0, "skipped_paused": 2.0, "skipped_filtered": 3.0, "deduplicated": false, "warnings": []any{},
		"deliveries": []any{map[string]any{"delivery_id": anID.String(), "endpoint_id": anID.String(), "filter_error": "cost_exceeded"}},
	}
	if diff := cmp.Diff(want, document); diff != "" || w.Code != http.StatusAccepted {
		t.Errorf("status %d, answer (-want +got):\n%s", w.Code, diff)
	}
	asked := event.Request{
		Asked:        delivery.Asked{Payload: []byte(`{"z": 1}`), Headers: map[string]string{"X-A": "b"}, MaxAttempts: new(3), Deadline: moment.UTC(), OrderingKey: "o"},
		Organization: "default", Owner: "ann", EventType: "a.b", Key: "k",
	}
	if diff := cmp.Diff(asked, d.asked[0]); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	d.result.Deduplicated, d.result.Mismatch = true, true
	if w, _ := call(t, h, "POST", "/v1/events", `{"event_type":"a","payload":{}}`); w.Code != http.StatusOK || w.Header().Get(api.HeaderMismatch) != "true" {
		t.Errorf("repeat: %d, %v", w.Code, w.Header())
	}
}

func TestReplays(t *testing.T) {
	d := &domain{nextID: anID, created: replay.Created{Replay: replay.Replay{
		ID: anID, Organization: "default", Status: replay.StatusQueued, Matched: 3, Created: moment, Updated: moment,
		Filter: replay.Filter{Statuses: []delivery.Status{"failed"}, CreatedFrom: moment},
	}}}
	h := newServer(t, d).Handler()
	body := `{"filter":{"status":["failed"],"created_after":"2023-11-14T22:13:20Z","host":"h"},"rate_per_second":2,"max_attempts":4}`
	w, document := call(t, h, "POST", "/v1/replays", body, "Idempotency-Key", "k")
	want := map[string]any{
		"replay_id": anID.String(), "organization_id": "default", "owner_id": nil, "dry_run": false, "status": "queued", "matched": 3.0,
		"replayed": 0.0, "skipped": 0.0, "error": nil, "created_at": "2023-11-14T22:13:20Z", "updated_at": "2023-11-14T22:13:20Z", "finished_at": nil,
		"filter": map[string]any{
			"delivery_ids": []any{}, "status": []any{"failed"}, "endpoint_id": "", "event_type": "", "host": "",
			"created_after": "2023-11-14T22:13:20Z", "created_before": nil,
		},
	}
	if diff := cmp.Diff(want, document); diff != "" || w.Code != http.StatusAccepted {
		t.Errorf("status %d, answer (-want +got):\n%s", w.Code, diff)
	}
	asked := replay.Request{
		Organization: "default", Key: "k", MaxAttempts: new(4), RatePerSecond: 2,
		Filter: replay.Filter{Statuses: []delivery.Status{"failed"}, CreatedFrom: moment.UTC(), Host: "h"},
	}
	if diff := cmp.Diff(asked, d.asked[0]); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	d.created.DryRun, d.created.ID, d.created.Status = true, delivery.ID{}, replay.StatusCounted
	if w, document := call(t, h, "POST", "/v1/replays", `{"filter":{},"dry_run":true}`); w.Code != http.StatusOK || document["replay_id"] != "" || document["status"] != "counted" {
		t.Errorf("dry run: %d, %v", w.Code, document)
	}
	_, document = call(t, h, "GET", "/v1/replays?limit=1", "")
	next, _ := document["next_cursor"].(string)
	d.asked = nil
	call(t, h, "GET", "/v1/replays?cursor="+next, "", "X-Owner-Id", "o")
	call(t, h, "GET", "/v1/replays/r", "")
	call(t, h, "POST", "/v1/replays/r/cancel", "")
	if diff := cmp.Diff([]any{[]any{"default", "o", anID, 50}, []any{"default", "", "r"}, []any{"default", "", "r"}}, d.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// What the contract refuses, and never with the value that is a secret.
func TestRefusedSubscriptions(t *testing.T) {
	h := newServer(t, &domain{}).Handler()
	long := strings.Repeat("a", 600)
	for name, tt := range map[string]struct{ verb, path, body, text string }{
		"no url":                 {"POST", "/v1/endpoints", `{"event_types":["a"]}`, "url"},
		"a long url":             {"POST", "/v1/endpoints", `{"url":"` + strings.Repeat("a", 2049) + `","event_types":["a"]}`, "url"},
		"no types":               {"POST", "/v1/endpoints", `{"url":"https://a.b","event_types":[]}`, "event_types"},
		"a bad type":             {"POST", "/v1/endpoints", `{"url":"https://a.b","event_types":["a b"]}`, "event_types[0]: must be a name of letters"},
		"a star inside":          {"POST", "/v1/endpoints", `{"url":"https://a.b","event_types":["a*"]}`, "event_types"},
		"a type twice":           {"POST", "/v1/endpoints", `{"url":"https://a.b","event_types":["a","a"]}`, "event_types"},
		"101 types":              {"POST", "/v1/endpoints", `{"url":"https://a.b","event_types":` + names(101) + `}`, "event_types"},
		"a mode":                 {"POST", "/v1/endpoints", `{"url":"https://a.b","event_types":["a"],"signing_mode":"none"}`, "signing_mode"},
		"a long secret":          {"POST", "/v1/endpoints", `{"url":"https://a.b","event_types":["a"],"signing_mode":"endpoint_body","signing_secret":"` + canary + long + `"}`, "signing_secret"},
		"a negative rate":        {"POST", "/v1/endpoints", `{"url":"https://a.b","event_types":["a"],"rate_limit_per_second":-1}`, "rate_limit_per_second"},
		"a rate":                 {"POST", "/v1/endpoints", `{"url":"https://a.b","event_types":["a"],"rate_limit_per_second":10001}`, "rate_limit_per_second"},
		"a long description":     {"POST", "/v1/endpoints", `{"url":"https://a.b","event_types":["a"],"description":"` + long + `"}`, "description"},
		"a secret that is a map": {"POST", "/v1/endpoints", `{"url":"https://a.b","event_types":["a"],"signing_secret":{"v":"` + canary + `"}}`, "signing_secret"},
		"an unknown field":       {"POST", "/v1/endpoints", `{"secret":"` + canary + `"}`, "secret"},
		"an empty new secret":    {"PATCH", "/v1/endpoints/x", `{"signing_secret":""}`, "signing_secret"},
		"a long overlap":         {"PATCH", "/v1/endpoints/x", `{"secret_overlap_seconds":604801}`, "secret_overlap_seconds"},
		"an empty url":           {"PATCH", "/v1/endpoints/x", `{"url":""}`, "url"},
		"a test's type":          {"POST", "/v1/endpoints/x/test", `{"event_type":"a b"}`, "event_type"},
		"an event without type":  {"POST", "/v1/events", `{"payload":{}}`, "event_type"},
		"an event's star":        {"POST", "/v1/events", `{"event_type":"*","payload":{}}`, "event_type"},
		"an empty event":         {"POST", "/v1/events", `{"event_type":"a"}`, "payload"},
		"a limit":                {"GET", "/v1/endpoints?limit=201", "", "limit"},
		"a cursor":               {"GET", "/v1/endpoints?cursor=x", "", "cursor"},
		"another list's cursor":  {"GET", "/v1/deliveries?cursor=ZW5kcG9pbnQ6AAAAAAAAAAAAAAAAAAAAAA", "", "cursor"},
		"a status":               {"GET", "/v1/deliveries?status=dead", "", "status"},
		"a misspelt filter":      {"GET", "/v1/deliveries?statuss=failed", "", "statuss"},
		"a replay of nothing":    {"POST", "/v1/replays", `{}`, "filter"},
		"a replay's status":      {"POST", "/v1/replays", `{"filter":{"status":["queued"]}}`, "status"},
		"a replay's rate":        {"POST", "/v1/replays", `{"filter":{},"rate_per_second":-1}`, "rate_per_second"},
		"a replay's ids":         {"POST", "/v1/replays", `{"filter":{"delivery_ids":` + names(1001) + `}}`, "delivery_ids"},
	} {
		t.Run(name, func(t *testing.T) {
			w, document := call(t, h, tt.verb, tt.path, tt.body)
			if w.Code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(document["reason"]), tt.text) {
				t.Errorf("status %d, %v", w.Code, document)
			}
			testkit.NoLeak(t, canary, w.Body.String())
		})
	}
}

// names is a JSON list of n different names.
func names(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint("n", i)
	}
	text, _ := json.Marshal(all)
	return string(text)
}

// Both faces are one: the domain's refusals arrive with status, code and reason.
func TestRefusalsOnBothFaces(t *testing.T) {
	d := &domain{}
	server := newServer(t, d)
	conn := testkit.Dial(t, server.GRPC())
	for _, tt := range []struct {
		err    *apierr.Error
		status int
		code   codes.Code
	}{
		{apierr.NotFound("endpoint"), 404, codes.NotFound},
		{apierr.New(apierr.KindInvalid, endpoint.ReasonSecretRequired, "signing_secret: is required"), 400, codes.InvalidArgument},
		{apierr.New(apierr.KindConflict, delivery.ReasonEndpointDeleted, "deleted"), 409, codes.Aborted},
		{apierr.Unavailable("the database is away", nil), 503, codes.Unavailable},
	} {
		d.err = tt.err
		for _, one := range []struct {
			verb, path, body string
			grpc             func(grpc.ClientConnInterface) error
		}{
			{"GET", "/v1/endpoints/x", "", func(c grpc.ClientConnInterface) error {
				_, err := webhooksv1.NewEndpointServiceClient(c).GetEndpoint(t.Context(), &webhooksv1.GetEndpointRequest{Id: "x"})
				return err
			}},
			{"POST", "/v1/events", `{"event_type":"a","payload":{}}`, func(c grpc.ClientConnInterface) error {
				_, err := webhooksv1.NewEventServiceClient(c).EmitEvent(t.Context(), &webhooksv1.EmitEventRequest{EventType: "a", Payload: []byte("{}")})
				return err
			}},
			{"POST", "/v1/deliveries/x/resend", "", func(c grpc.ClientConnInterface) error {
				_, err := webhooksv1.NewDeliveryServiceClient(c).ResendDelivery(t.Context(), &webhooksv1.ResendDeliveryRequest{Id: "x"})
				return err
			}},
			{"POST", "/v1/replays/x/cancel", "", func(c grpc.ClientConnInterface) error {
				_, err := webhooksv1.NewReplayServiceClient(c).CancelReplay(t.Context(), &webhooksv1.CancelReplayRequest{Id: "x"})
				return err
			}},
		} {
			w, document := call(t, server.Handler(), one.verb, one.path, one.body)
			err := one.grpc(conn)
			type refusal struct {
				httpStatus   int
				code         codes.Code
				http, inGRPC any
			}
			want := refusal{tt.status, tt.code, string(tt.err.Reason), tt.err.Reason}
			got := refusal{w.Code, status.Code(err), document["error"], apierr.From(err).Reason}
			if got != want {
				t.Errorf("%s %s: %+v, want %+v", one.verb, one.path, got, want)
			}
		}
	}
}
