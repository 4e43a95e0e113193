package delivery_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

func TestRefusals(t *testing.T) {
	large := []byte(`{"a":"` + strings.Repeat("x", delivery.MaxPayload) + `"}`)
	deep := []byte(strings.Repeat(`{"a":`, jsoncheck.MaxDepth+1) + "1" + strings.Repeat("}", jsoncheck.MaxDepth+1))
	wide := []byte(`{"a":[` + strings.Repeat("[],", jsoncheck.MaxContainers) + "0]}")
	tests := map[string]struct {
		change func(*delivery.Request)
		reason apierr.Reason
		status int
		text   string
	}{
		"payload is an array":  {func(r *delivery.Request) { r.Payload = []byte(`[1]`) }, apierr.ReasonInvalidRequest, 400, "payload"},
		"payload is no JSON":   {func(r *delivery.Request) { r.Payload = []byte(`{"a"`) }, apierr.ReasonInvalidRequest, 400, "payload"},
		"payload is empty":     {func(r *delivery.Request) { r.Payload = nil }, apierr.ReasonInvalidRequest, 400, "payload"},
		"payload is not UTF-8": {func(r *delivery.Request) { r.Payload = []byte("{\"a\":\"\xff\"}") }, apierr.ReasonInvalidRequest, 400, "payload"},
		"payload is deep":      {func(r *delivery.Request) { r.Payload = deep }, apierr.ReasonInvalidRequest, 400, "payload: " + jsoncheck.RuleDepth},
		"payload is wide":      {func(r *delivery.Request) { r.Payload = wide }, apierr.ReasonInvalidRequest, 400, "payload: " + jsoncheck.RuleContainers},
		"payload is large":     {func(r *delivery.Request) { r.Payload = large }, delivery.ReasonPayloadTooLarge, 413, "524288"},
		"deadline has passed":  {func(r *delivery.Request) { r.Deadline = now }, delivery.ReasonDeadlinePassed, 400, "deadline_at"},
		"private address":      {func(r *delivery.Request) { r.URL = "http://10.0.0.1/" }, delivery.ReasonTargetNotAllowed, 400, "rule: address"},
		"metadata address":     {func(r *delivery.Request) { r.URL = "http://169.254.169.254/latest" }, delivery.ReasonTargetNotAllowed, 400, "rule: address"},
		"local name":           {func(r *delivery.Request) { r.URL = "http://localhost:9000/" }, delivery.ReasonTargetNotAllowed, 400, "rule: local_name"},
		"user in the URL":      {func(r *delivery.Request) { r.URL = "http://u:p@127.0.0.1:9000/" }, delivery.ReasonTargetNotAllowed, 400, "rule: userinfo"},
		"other scheme":         {func(r *delivery.Request) { r.URL = "ftp://127.0.0.1:9000/" }, delivery.ReasonTargetNotAllowed, 400, "rule: scheme"},
		"our own event type":   {func(r *delivery.Request) { r.EventType = "switchyard.delivery.failed" }, apierr.ReasonInvalidRequest, 400, "event_type"},
		"NUL in the owner":     {func(r *delivery.Request) { r.Owner = "a\x00" }, apierr.ReasonInvalidRequest, 400, "owner_id"},
	}
	m := &memory{}
	s := newService(t, m, nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := request()
			tt.change(&r)
			_, err := s.Enqueue(t.Context(), r)
			e := apierr.From(err)
			if e == nil {
				t.Fatal("it was accepted")
			}
			if e.Reason != tt.reason || e.Kind.HTTPStatus() != tt.status {
				t.Errorf("%d %s, want %d %s", e.Kind.HTTPStatus(), e.Reason, tt.status, tt.reason)
			}
			if !strings.Contains(e.Text, tt.text) {
				t.Errorf("text %q does not contain %q", e.Text, tt.text)
			}
		})
	}
	if len(m.drafts) != 0 {
		t.Errorf("%d refused requests were stored", len(m.drafts))
	}
}

func TestReadsRefuseWhatNoColumnHolds(t *testing.T) {
	s := newService(t, &memory{}, nil)
	id := delivery.NewID(time.Now()).String()
	for _, who := range [][2]string{{"a\x00", ""}, {"acme", "\x00"}, {"acme", "\xff"}} {
		_, err := s.Get(t.Context(), who[0], who[1], id, false)
		if e := apierr.From(err); e == nil || e.Kind != apierr.KindInvalid {
			t.Errorf("%q: err = %v", who, err)
		}
		_, _, err = s.Attempts(t.Context(), who[0], who[1], id, 0, 1)
		if e := apierr.From(err); e == nil || e.Kind != apierr.KindInvalid {
			t.Errorf("attempts, %q: err = %v", who, err)
		}
	}
}

func TestHeadersRefused(t *testing.T) {
	names := []string{
		"Host", "host", "Connection", "Keep-Alive", "Proxy-Authorization", "proxy-x", "TE", "Trailer", "Transfer-Encoding",
		"Upgrade", "Content-Length", "content-type", "Content-Encoding", "Expect", "User-Agent", "Forwarded", "X-Forwarded-For",
		"X-Real-IP", "X-Webhook-Signature", "x_webhook_signature", "webhook-id", "Traceparent", "tracestate", "X-Amz-Date", "X-Amzn-Trace-Id",
		"X-Goog-User", "X-Google-Cloud", "X-GFE-Request", "X-Azure-Ref", "X-FD-HealthProbe", "Metadata", "Metadata-Flavor",
		"X-aws-ec2-metadata-token", "Cache-Control", "Clear-Site-Data", "bad name", "bad:name", "",
	}
	s := newService(t, &memory{}, nil)
	for _, name := range names {
		r := request()
		r.Headers = map[string]string{name: "hidden-value"}
		_, err := s.Enqueue(t.Context(), r)
		e := apierr.From(err)
		if e == nil || e.Reason != delivery.ReasonHeaderNotAllowed || strings.Contains(e.Error(), "hidden-value") {
			t.Errorf("%q: err = %v", name, err)
		}
	}
	for name, headers := range map[string]map[string]string{
		"line break":     {"X-A": "a\r\nX-B: c"},
		"not ASCII":      {"X-A": "ä"},
		"given twice":    {"X-A": "1", "x-a": "2"},
		"large together": {"X-A": strings.Repeat("a", 8<<10), "X-B": strings.Repeat("a", 9<<10)},
	} {
		r := request()
		r.Headers = headers
		if _, err := s.Enqueue(t.Context(), r); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestCredentialsNeedAKey(t *testing.T) {
	s := newService(t, &memory{}, func(o *delivery.Options) { o.Intake.Sealer = nil })
	for name, want := range map[string]bool{"Authorization": false, "Cookie": false, "X-Api-Key": false, "X-Auth": false, "X-Author": true} {
		r := request()
		r.Headers = map[string]string{name: "canary-credential"}
		_, err := s.Enqueue(t.Context(), r)
		if (err == nil) != want {
			t.Errorf("%s: err = %v", name, err)
		}
		if err != nil {
			testkit.NoLeak(t, "canary-credential", err.Error())
		}
	}
}

// A draft that the store rejects, or panics at, must not take others of its batch along.
func TestOneBadDraft(t *testing.T) {
	for name, tt := range map[string]struct {
		refuse func() error
		want   error
	}{
		"rejected": {func() error { return fmt.Errorf("insert: %w", delivery.ErrRejected) }, delivery.ErrRejected},
		"panics":   {func() error { panic("boom") }, panics.Err},
	} {
		t.Run(name, func(t *testing.T) { testOneBadDraft(t, tt.refuse, tt.want) })
	}
}

func TestNoRoom(t *testing.T) {
	m := &memory{refuse: true}
	s := newService(t, m, nil)
	if _, err := s.Enqueue(t.Context(), request()); err != nil || m.waiting != 1 || len(m.sent) != 0 {
		t.Errorf("err %v, waiting %d, sent %d", err, m.waiting, len(m.sent))
	}
}
