package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

func TestListDeliveries(t *testing.T) {
	d := &domain{records: []delivery.Record{{ID: anID, Status: delivery.StatusFailed}}, nextID: anID}
	h := newServer(t, d).Handler()
	path := "/v1/deliveries?status=failed&status=expired&endpoint_id=e&event_id=v&event_type=t&host=h:1&created_after=2023-11-14T22:13:20Z&created_before=2023-11-14T22:13:20Z&limit=7"
	_, document := call(t, h, "GET", path, "", "X-Owner-Id", "ann")
	next, _ := document["next_cursor"].(string)
	call(t, h, "GET", "/v1/deliveries?cursor="+next, "")
	want := []any{
		[]any{delivery.Filter{
			Organization: "default", Owner: "ann", Statuses: []delivery.Status{"failed", "expired"}, EndpointID: "e", EventID: "v", EventType: "t",
			Host: "h:1", CreatedFrom: moment.UTC(), CreatedTo: moment.UTC(),
		}, delivery.LastID, 7},
		[]any{delivery.Filter{Organization: "default"}, anID, 50},
	}
	if diff := cmp.Diff(want, d.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestResendAndCancel(t *testing.T) {
	d := &domain{record: delivery.Record{ID: anID, Status: delivery.StatusQueued, Generation: 2}}
	h := newServer(t, d).Handler()
	if w, document := call(t, h, "POST", "/v1/deliveries/x/resend", `{"max_attempts":3}`, "Idempotency-Key", "k"); w.Code != http.StatusAccepted || document["generation"] != 2.0 {
		t.Errorf("resend: %d, %v", w.Code, document)
	}
	d.repeat = true
	if w, _ := call(t, h, "POST", "/v1/deliveries/x/resend", ""); w.Code != http.StatusOK {
		t.Errorf("repeat: %d", w.Code)
	}
	if w, _ := call(t, h, "POST", "/v1/deliveries/x/cancel", "", "X-Owner-Id", "o"); w.Code != http.StatusOK {
		t.Errorf("cancel: %d", w.Code)
	}
	want := []any{
		delivery.ResendRequest{Organization: "default", ID: "x", MaxAttempts: new(3), Key: "k"},
		delivery.ResendRequest{Organization: "default", ID: "x"},
		[]any{"default", "o", "x"},
	}
	if diff := cmp.Diff(want, d.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestEnqueueBatch(t *testing.T) {
	d := &domain{accepted: delivery.Accepted{Stored: delivery.Stored{ID: anID, Status: delivery.StatusQueued}}}
	h := newServer(t, d).Handler()
	item := `{"url":"https://example.com","event_type":"e","payload":{},"owner_id":"o","idempotency_key":"k"}`
	w, document := call(t, h, "POST", "/v1/deliveries/batch", `{"organization_id":"acme","deliveries":[`+item+`,{"url":"https://b.c","event_type":"e","payload":{}}]}`)
	if w.Code != http.StatusAccepted || document["accepted"] != 2.0 || document["deduplicated"] != 0.0 {
		t.Errorf("batch: %d, %v", w.Code, document)
	}
	want := []delivery.Request{
		{Organization: "acme", Owner: "o", URL: "https://example.com", EventType: "e", Payload: []byte("{}"), Key: "k"},
		{Organization: "acme", URL: "https://b.c", EventType: "e", Payload: []byte("{}")},
	}
	if diff := cmp.Diff(want, d.asked[0]); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	d.accepted.Deduplicated = true
	if w, document := call(t, h, "POST", "/v1/deliveries/batch", `{"deliveries":[`+item+`]}`); w.Code != http.StatusOK || document["deduplicated"] != 1.0 {
		t.Errorf("repeats: %d, %v", w.Code, document)
	}
	for name, tt := range map[string]struct {
		body    string
		headers []string
		status  int
		text    string
	}{
		"none":               {`{"deliveries":[]}`, nil, 400, "deliveries"},
		"too many":           {`{"deliveries":[` + strings.TrimSuffix(strings.Repeat(item+",", 1001), ",") + `]}`, nil, 400, "deliveries"},
		"a bad item":         {`{"deliveries":[` + item + `,{"event_type":"e","payload":{}}]}`, nil, 400, "deliveries[1].url"},
		"other organization": {`{"deliveries":[` + item + `,{"organization_id":"b","url":"https://b.c","event_type":"e","payload":{}}]}`, []string{"X-Organization-Id", "a"}, 403, "deliveries[1].organization_id"},
		"one key for all":    {`{"deliveries":[` + item + `]}`, []string{"Idempotency-Key", "k"}, 400, "Idempotency-Key"},
	} {
		t.Run(name, func(t *testing.T) {
			w, document := call(t, h, "POST", "/v1/deliveries/batch", tt.body, tt.headers...)
			if w.Code != tt.status || !strings.Contains(fmt.Sprint(document["reason"]), tt.text) {
				t.Errorf("status %d, %v", w.Code, document)
			}
		})
	}
}

func TestEnqueueStream(t *testing.T) {
	d := &domain{accepted: delivery.Accepted{Stored: delivery.Stored{ID: anID}}}
	client := webhooksv1.NewDeliveryServiceClient(testkit.Dial(t, newServer(t, d).GRPC()))
	send := func(ctx metadata.MD, items ...*webhooksv1.EnqueueRequest) (*webhooksv1.EnqueueSummary, error) {
		stream, err := client.EnqueueStream(metadata.NewOutgoingContext(t.Context(), ctx))
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			if stream.Send(item) != nil {
				break // the answer tells
			}
		}
		return stream.CloseAndRecv()
	}
	item := &webhooksv1.EnqueueRequest{Url: "https://example.com", EventType: "e", Payload: []byte(`{}`)}
	many := make([]*webhooksv1.EnqueueRequest, 450)
	for i := range many {
		many[i] = item
	}
	summary, err := send(metadata.Pairs("x-organization-id", "acme"), many...)
	if err != nil {
		t.Fatal(err)
	}
	if accepted, ids := summary.GetAccepted(), len(summary.GetDeliveryIds()); accepted != 450 || ids != 450 {
		t.Errorf("%d accepted with %d ids, want 450", accepted, ids)
	}
	if len(d.asked) != 3 {
		t.Errorf("%d batches, want 3", len(d.asked))
	}
	if first, ok := d.asked[0].([]delivery.Request); !ok || len(first) != 200 || first[0].Organization != "acme" {
		t.Errorf("asked %+v", d.asked[0])
	}
	if summary, err := send(nil); err != nil || summary.GetAccepted() != 0 {
		t.Errorf("nothing: %v, %v", summary, err)
	}
	for name, tt := range map[string]struct {
		ctx   metadata.MD
		items []*webhooksv1.EnqueueRequest
		code  codes.Code
		text  string
	}{
		"an invalid item":    {nil, []*webhooksv1.EnqueueRequest{item, {Url: "https://a.b"}}, codes.InvalidArgument, "deliveries[1].event_type"},
		"other organization": {metadata.Pairs("x-organization-id", "a"), []*webhooksv1.EnqueueRequest{{OrganizationId: "b", Url: "https://a.b", EventType: "e", Payload: []byte("{}")}}, codes.PermissionDenied, "deliveries[0].organization_id"},
		"one key for all":    {metadata.Pairs("idempotency-key", "k"), []*webhooksv1.EnqueueRequest{item}, codes.InvalidArgument, "Idempotency-Key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := send(tt.ctx, tt.items...)
			if status.Code(err) != tt.code || !strings.Contains(status.Convert(err).Message(), tt.text) {
				t.Errorf("err = %v", err)
			}
		})
	}
}
