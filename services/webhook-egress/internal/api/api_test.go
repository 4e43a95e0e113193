package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/api"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

func newServer(t *testing.T, d *domain) *rpc.Server {
	t.Helper()
	server, err := rpc.New(rpc.Options{
		Log: testkit.Logger(t), Tracer: noop.NewTracerProvider().Tracer("t"), Meter: metricnoop.NewMeterProvider().Meter("t"),
		Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson, MaxBody: 1 << 20, UnaryTimeout: time.Second,
		ErrorBody: apierr.NewDocument,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Register(t.Context(), server, api.Domain{
		Deliverer: d, Registry: registry{d}, Emitter: emitter{d}, House: house{d}, Types: types(t), Replayer: replayer{d}, Organization: "default",
		Keys: d.keys, Circuits: circuitList{d}, CallCounts: callCounts{d},
	}); err != nil {
		t.Fatal(err)
	}
	if err := server.Check(); err != nil {
		t.Fatal(err)
	}
	return server
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// call makes a JSON request; headers are name, value, name, value.
func call(t *testing.T, h http.Handler, verb, path, body string, headers ...string) (*httptest.ResponseRecorder, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(verb, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := serve(h, r)
	var document map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
		t.Fatalf("%s %s: %d %s", verb, path, w.Code, w.Body)
	}
	return w, document
}

const enqueueBody = `{"url":"https://example.com/x","event_type":"order.paid","payload":{"b": 1,  "a":12345678901234567890}}`

func TestEnqueue(t *testing.T) {
	id := delivery.NewID(time.Unix(1700000000, 0))
	d := &domain{accepted: delivery.Accepted{
		Stored: delivery.Stored{ID: id, Status: delivery.StatusQueued}, Organization: "default", Key: "k",
	}}
	h := newServer(t, d).Handler()
	w, document := call(t, h, "POST", "/v1/deliveries", enqueueBody, "X-Owner-Id", "ann", "Idempotency-Key", "k")
	if w.Code != http.StatusAccepted || w.Header().Get(api.HeaderMismatch) != "" {
		t.Errorf("status %d, headers %v", w.Code, w.Header())
	}
	want := map[string]any{
		"delivery_id": id.String(), "organization_id": "default", "status": "queued", "idempotency_key": "k", "deduplicated": false,
	}
	if diff := cmp.Diff(want, document); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	request := delivery.Request{
		Organization: "default", Owner: "ann", URL: "https://example.com/x", EventType: "order.paid", Key: "k",
		Payload: []byte(`{"b": 1,  "a":12345678901234567890}`),
	}
	if diff := cmp.Diff(request, d.asked[0]); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}

	d.accepted.Deduplicated, d.accepted.Mismatch = true, true
	w, document = call(t, h, "POST", "/v1/deliveries", enqueueBody)
	if w.Code != http.StatusOK || document["deduplicated"] != true || w.Header().Get(api.HeaderMismatch) != "true" {
		t.Errorf("repeat: status %d, %v, headers %v", w.Code, document, w.Header())
	}
}

func TestRefused(t *testing.T) {
	h := newServer(t, &domain{err: errors.New("pq: secret detail")}).Handler()
	tests := map[string]struct {
		body    string
		headers []string
		status  int
		code    string
		text    string
	}{
		"no url":               {`{"event_type":"e","payload":{}}`, nil, 400, "invalid_request", "url"},
		"bad event type":       {`{"url":"https://a.b","event_type":"a b","payload":{}}`, nil, 400, "invalid_request", "event_type"},
		"no payload":           {`{"url":"https://a.b","event_type":"e"}`, nil, 400, "invalid_request", "payload"},
		"unknown field":        {`{"urll":"x"}`, nil, 400, "invalid_request", "urll"},
		"other organization":   {`{"organization_id":"b",` + enqueueBody[1:], []string{"X-Organization-Id", "a"}, 403, "", "organization_id"},
		"owners differ":        {`{"owner_id":"b",` + enqueueBody[1:], []string{"X-Owner-Id", "a"}, 400, "", "owner_id"},
		"keys differ":          {`{"idempotency_key":"b",` + enqueueBody[1:], []string{"Idempotency-Key", "a"}, 400, "", "idempotency_key"},
		"body too large":       {`{"url":"` + strings.Repeat("a", 1<<20) + `"}`, nil, 413, "too_large", ""},
		"the store's own text": {enqueueBody, nil, 500, "internal", "request id"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w, document := call(t, h, "POST", "/v1/deliveries", tt.body, tt.headers...)
			text, _ := document["reason"].(string)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d", w.Code, tt.status)
			}
			if !strings.Contains(text, tt.text) {
				t.Errorf("reason %q does not contain %q", text, tt.text)
			}
			if tt.code != "" && document["error"] != tt.code {
				t.Errorf("error %v, want %s", document["error"], tt.code)
			}
			testkit.NoLeak(t, "secret detail", w.Body.String())
		})
	}
}

func TestGetDelivery(t *testing.T) {
	id := delivery.NewID(time.Unix(1700000000, 0))
	d := &domain{record: delivery.Record{
		ID: id, Organization: "a", URL: "https://example.com", EventType: "e", SigningMode: "org_timestamp", Status: delivery.StatusRetrying,
		Generation: 1, Attempts: 2, MaxAttempts: 12, LastResponseCode: 500, LastError: "http_5xx",
		NextAttempt: time.Unix(1700000100, 0), OrderingKey: "k", Updated: time.Unix(1700000050, 0), Body: []byte(`{"z":1, "a":2}`),
	}}
	w, document := call(t, newServer(t, d).Handler(), "GET", "/v1/deliveries/"+id.String()+"?include_payload=true", "", "X-Organization-Id", "a", "X-Owner-Id", "o")
	want := map[string]any{
		"delivery_id": id.String(), "organization_id": "a", "owner_id": nil, "url": "https://example.com", "event_type": "e", "status": "retrying",
		"attempts": 2.0, "max_attempts": 12.0, "last_response_code": 500.0, "last_error": "http_5xx", "endpoint_id": nil,
		"signing_mode": "org_timestamp", "next_attempt_at": "2023-11-14T22:15:00Z", "created_at": "2023-11-14T22:13:20Z",
		"updated_at": "2023-11-14T22:14:10Z", "event_id": nil, "idempotency_key": nil, "generation": 1.0, "deadline_at": nil,
		"finished_at": nil, "payload": map[string]any{"z": 1.0, "a": 2.0}, "ordering_key": "k", "filter_error": nil,
	}
	if diff := cmp.Diff(want, document); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if !strings.Contains(w.Body.String(), `"payload":{"z":1, "a":2}`) {
		t.Errorf("the payload's bytes changed: %s", w.Body)
	}
	if diff := cmp.Diff([]any{"a", "o", id.String(), true}, d.asked[0]); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestListAttempts(t *testing.T) {
	d := &domain{attempts: []delivery.Attempt{{Generation: 1, Number: 1, Outcome: delivery.OutcomeRetry, Started: time.Unix(0, 0)}}, next: 41}
	h := newServer(t, d).Handler()
	_, document := call(t, h, "GET", "/v1/deliveries/x/attempts?limit=1", "")
	cursor, _ := document["next_cursor"].(string)
	call(t, h, "GET", "/v1/deliveries/x/attempts?cursor="+cursor, "")
	want := []any{[]any{"default", "", "x", int64(0), 1}, []any{"default", "", "x", int64(41), 50}}
	if diff := cmp.Diff(want, d.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"!!", "LTE", "YWJj" + strings.Repeat("Y", 40)} {
		if w, _ := call(t, h, "GET", "/v1/deliveries/x/attempts?cursor="+bad, ""); w.Code != http.StatusBadRequest {
			t.Errorf("cursor %q: status %d", bad, w.Code)
		}
	}
}

// The same handlers answer over gRPC, with the details of an error.
func TestGRPC(t *testing.T) {
	d := &domain{err: apierr.New(apierr.KindTooLarge, delivery.ReasonPayloadTooLarge, "payload: too large")}
	server := newServer(t, d)
	conn := testkit.Dial(t, server.GRPC())
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-organization-id", "acme", "x-owner-id", "ann")
	_, err := webhooksv1.NewDeliveryServiceClient(conn).Enqueue(ctx, &webhooksv1.EnqueueRequest{
		Url: "https://example.com", EventType: "e", Payload: []byte(`{}`),
	})
	if e := apierr.From(err); e.Reason != delivery.ReasonPayloadTooLarge || e.Kind.HTTPStatus() != 413 || status.Code(err) != codes.InvalidArgument {
		t.Errorf("err = %+v", e)
	}
	if request, ok := d.asked[0].(delivery.Request); !ok || request.Organization != "acme" || request.Owner != "ann" {
		t.Errorf("asked %+v", d.asked[0])
	}
}

// fill makes a request that passes validation wherever it can be: only then a
// method is reached at all.
func fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.Name() == "filter" && f.Message() != nil:
			m.Set(f, protoreflect.ValueOfMessage(m.NewField(f).Message()))
		case f.Name() == "deliveries" && f.IsList():
			list := m.Mutable(f).List()
			element := list.NewElement()
			fill(element.Message())
			list.Append(element)
		case f.Name() == "event_types":
			list := m.Mutable(f).List()
			list.Append(protoreflect.ValueOfString("a.b"))
		case slices.Contains([]protoreflect.Name{"id", "url", "event_type"}, f.Name()):
			m.Set(f, protoreflect.ValueOfString("a"))
		case f.Name() == "payload":
			m.Set(f, protoreflect.ValueOfBytes([]byte(`{}`)))
		}
	}
}

// Every method of the contract is served.
func TestImplemented(t *testing.T) {
	server := newServer(t, &domain{err: apierr.NotFound("x")})
	conn := testkit.Dial(t, server.GRPC())
	var missing []string
	for _, file := range api.Files() {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				method := methods.Get(j)
				name := "/" + string(file.Services().Get(i).FullName()) + "/" + string(method.Name())
				if status.Code(reach(t, conn, name, method)) == codes.Unimplemented {
					missing = append(missing, name)
				}
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("not implemented: %v", missing)
	}
}

// reach calls a method and gives its error.
func reach(t *testing.T, conn *grpc.ClientConn, name string, method protoreflect.MethodDescriptor) error {
	t.Helper()
	request, answer := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	fill(request)
	if !method.IsStreamingClient() && !method.IsStreamingServer() {
		return conn.Invoke(t.Context(), name, proto.Message(request), answer)
	}
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, name)
	if err != nil {
		return err
	}
	_ = stream.CloseSend()
	return stream.RecvMsg(answer)
}
