//go:build e2e

package e2e_test

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	"switchyard.dev/deploy/dev/stack"
	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
)

// An internal producer sends many deliveries in one call: each arrives once, a repeated key is answered with the first
// id, and the ids keep their order.
func TestEnqueueStream(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, to := unique("org"), h.receiver()
	client := webhooksv1.NewDeliveryServiceClient(h.grpc(t, stack.WebhookEgress))
	item := func(n int) *webhooksv1.EnqueueRequest {
		return &webhooksv1.EnqueueRequest{
			Url: to.url(), EventType: "order.paid", Payload: fmt.Appendf(nil, `{"n":%d}`, n), IdempotencyKey: fmt.Sprint("k", n), OwnerId: "ann",
		}
	}
	const items = 450 // more than two batches that are committed together
	stream, err := client.EnqueueStream(h.as(t, organization))
	if err != nil {
		t.Fatal(err)
	}
	for n := range items + 1 {
		if err := stream.Send(item(n % items)); err != nil { // the last item repeats the first
			t.Fatal(err)
		}
	}
	summary, err := stream.CloseAndRecv()
	ids := summary.GetDeliveryIds()
	if err != nil {
		t.Fatal(err)
	}
	if n, repeated := summary.GetAccepted(), summary.GetDeduplicated(); n != items || repeated != 1 {
		t.Fatalf("%d accepted, %d deduplicated, want %d and 1", n, repeated, items)
	}
	if len(ids) != items+1 || ids[items] != ids[0] {
		t.Fatalf("%d ids, want %d of which the last repeats the first", len(ids), items+1)
	}
	webhooks := h.service(stack.WebhookEgress, organization)
	place := make(map[string]int, items)
	for n, id := range ids[:items] {
		place[id] = n
		if d := ended(t, webhooks, id); d.Status != "delivered" {
			t.Fatalf("record %+v", d)
		}
	}
	for _, a := range to.arrivals(t) {
		if n, ours := place[a.ID]; !ours || a.Body != fmt.Sprintf(`{"n":%d}`, n) {
			t.Errorf("%s arrived with %s", a.ID, a.Body)
		}
		delete(place, a.ID)
	}
	if len(place) > 0 {
		t.Errorf("%d never arrived", len(place))
	}

	// An invalid item is named by its position; the items that were committed before it stay.
	stream, err = client.EnqueueStream(h.as(t, organization))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&webhooksv1.EnqueueRequest{Url: to.url(), EventType: "a.b", Payload: []byte(`[]`)}); err != nil {
		t.Fatal(err)
	}
	_, err = stream.CloseAndRecv()
	refusedBy(t, err, codes.InvalidArgument, "invalid_request")
}
