package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/migrations"
)

// running is the whole service on a database of its own, with a receiver that accepts every delivery.
type running struct {
	base, receiver string
	pool           *pgxpool.Pool
}

// tokens is the file of three service tokens; the text of each is its name.
func tokens() string {
	var text strings.Builder
	text.WriteString("tokens:\n")
	for name, role := range map[string]caller.Role{
		caller.NameEdge: caller.RoleService, "notify": caller.RoleService, "control": caller.RoleOperator,
	} {
		fmt.Fprintf(&text, "- {name: %s, role: %s, sha256: %x}\n", name, role, sha256.Sum256([]byte(name)))
	}
	return text.String()
}

func serve(t *testing.T) *running {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	url, address := testkit.PostgresURL(t, migrations.FS), testkit.FreeAddress(t)
	cfg, err := Load(environWith(
		"WEBHOOK_EGRESS_DATABASE_URL_FILE="+testkit.File(t, url), "WEBHOOK_EGRESS_SERVICE_TOKENS_FILE="+testkit.File(t, tokens()),
		"WEBHOOK_EGRESS_HTTP_LISTEN="+address, "WEBHOOK_EGRESS_GRPC_LISTEN="+testkit.FreeAddress(t),
		"WEBHOOK_EGRESS_DEFAULT_SECRET_FILE="+testkit.File(t, "the-first-one-of-24-bytes-or-more"),
		"WEBHOOK_EGRESS_ALLOW_TARGETS="+receiver.Listener.Addr().String(), "WEBHOOK_EGRESS_REQUIRE_HTTPS=false",
		"WEBHOOK_EGRESS_DRAIN_DELAY=0s", "WEBHOOK_EGRESS_LOG_LEVEL=error",
	))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, cfg) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve ended with %v", err)
		}
	})
	s := &running{"http://" + address, receiver.URL, testkit.Pool(t, pgdb.Options{URL: url, ApplicationName: t.Name()})}
	testkit.Wait(t, "the service is ready", func() error {
		select {
		case err := <-served:
			served <- nil
			t.Fatalf("Serve ended: %v", err)
		default:
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/health/ready", http.NoBody)
		if err != nil {
			return err
		}
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
	return s
}

// call is a request for the organization acme; token is the edge's if it is empty. Without a metric it counts nothing.
type call struct{ verb, path, body, key, token, owner, user, metric string }

func (s *running) do(t *testing.T, c call) (status int, body, receipt string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), c.verb, s.base+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + cmp.Or(c.token, caller.NameEdge), caller.HeaderOrganization: "acme", caller.HeaderKey: "k1",
		caller.HeaderOwner: c.owner, caller.HeaderUser: c.user, caller.HeaderIdempotency: c.key, caller.HeaderCountMetric: c.metric,
	} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	status, body, header := testkit.Do(t, &http.Client{}, request)
	return status, body, header.Get(callcount.HeaderCounted)
}

// rowsOf returns the rows of a metric. A row with an id is the Recorder's, the others are of the records' transactions.
func (s *running) rowsOf(t *testing.T, metric string) string {
	t.Helper()
	return testkit.Value[string](t, s.pool, `SELECT coalesce(string_agg(concat_ws(' ', CASE WHEN id IS NULL THEN 'with record' ELSE 'alone' END,
		organization_id, key_id, user_id, tags, calls), ', '), '') FROM call_count WHERE metric = $1`, metric)
}

// idOf returns a field of a JSON answer.
func idOf(t *testing.T, body string, path ...string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	id, _ := value.(string)
	if id == "" {
		t.Fatalf("no %v in %s", path, body)
	}
	return id
}

// A successful call of the edge is counted once: with the record that it stores, or else alone.
func TestCallCounts(t *testing.T) {
	s := serve(t)
	enqueue := `{"url":"` + s.receiver + `","event_type":"order.paid","payload":{"n":1}}`
	other := `{"url":"` + s.receiver + `","event_type":"order.paid","payload":{"n":2},"idempotency_key":"a"}`
	_, body, _ := s.do(t, call{verb: "POST", path: "/v1/endpoints", body: `{"url":"` + s.receiver + `","event_types":["*"]}`})
	endpoint := "/v1/endpoints/" + idOf(t, body, "endpoint_id")
	_, body, _ = s.do(t, call{verb: "POST", path: endpoint + "/test", body: `{}`})
	ended := "/v1/deliveries/" + idOf(t, body, "delivery", "delivery_id")
	if n := testkit.Value[int](t, s.pool, "SELECT count(*) FROM call_count"); n != 0 {
		t.Errorf("calls without a metric made %d rows", n)
	}

	const together, alone, none = `with record acme k1 ann {} 1`, `alone acme k1 ann {} 1`, ``
	for _, tt := range []struct {
		call

		status int
		rows   string
	}{
		{call{verb: "POST", path: "/v1/deliveries", body: enqueue, key: "a", metric: "enqueue"}, 202, together},
		{call{verb: "POST", path: "/v1/deliveries", body: enqueue, key: "a", metric: "enqueue-again"}, 200, together},
		{call{verb: "POST", path: "/v1/deliveries", body: `{"url":"x"}`, metric: "enqueue-nothing"}, 400, none},
		{call{verb: "POST", path: "/v1/deliveries", body: enqueue, token: "notify", metric: "enqueue-of-notify"}, 401, none},
		{call{verb: "POST", path: "/v1/deliveries/batch", body: `{"deliveries":[` + enqueue + `,` + enqueue + `]}`, metric: "batch"}, 202, together},
		{call{verb: "POST", path: "/v1/deliveries/batch", body: `{"deliveries":[` + enqueue + `,` + other + `]}`, metric: "batch-key-reused"}, 422, none},
		{call{verb: "POST", path: "/v1/events", body: `{"event_type":"order.paid","payload":{"n":1}}`, metric: "event"}, 202, together},
		{call{verb: "POST", path: ended + "/resend", body: `{}`, key: "a", metric: "resend"}, 202, alone},
		{call{verb: "POST", path: ended + "/resend", body: `{}`, key: "a", metric: "resend-again"}, 200, alone},
		{call{verb: "POST", path: endpoint + "/test", body: `{}`, metric: "test"}, 200, alone},
		{call{verb: "POST", path: "/v1/replays", body: `{"filter":{"created_after":"2026-01-01T00:00:00Z"}}`, key: "a", metric: "replay"}, 202, together},
		{call{verb: "POST", path: "/v1/replays", body: `{"filter":{"created_after":"2026-01-01T00:00:00Z"}}`, key: "a", metric: "replay-again"}, 200, together},
		{call{verb: "POST", path: "/v1/replays", body: `{"filter":{"created_after":"2026-01-01T00:00:00Z"},"dry_run":true}`, metric: "dry-run"}, 200, alone},
		{call{verb: "GET", path: endpoint, metric: "get"}, 200, alone},
		{call{verb: "DELETE", path: endpoint, metric: "delete"}, 204, alone},
		{call{verb: "GET", path: endpoint, metric: "get-nothing"}, 404, none},
		{call{verb: "GET", path: "/v1/call-counts", metric: "list"}, 403, none},
	} {
		t.Run(tt.metric, func(t *testing.T) {
			tt.user = "ann"
			status, body, receipt := s.do(t, tt.call)
			if status != tt.status || (receipt == "1") != (tt.rows != none) {
				t.Errorf("status %d with receipt %q, want %d: %s", status, receipt, tt.status, body)
			}
			if rows := s.rowsOf(t, tt.metric); rows != tt.rows {
				t.Errorf("rows %q, want %q", rows, tt.rows)
			}
		})
	}
}

// Concurrent calls share transactions, and each is counted once. Operators page through the counts.
func TestConcurrentCallCounts(t *testing.T) {
	s := serve(t)
	const users, perUser = 4, 40
	var calls sync.WaitGroup
	for user := range users {
		for range perUser {
			calls.Go(func() {
				status, body, receipt := s.do(t, call{
					verb: "POST", path: "/v1/deliveries", body: `{"url":"` + s.receiver + `","event_type":"e","payload":{}}`,
					user: fmt.Sprint("user", user), metric: "deliveries",
				})
				if status != http.StatusAccepted || receipt != "1" {
					t.Errorf("status %d with receipt %q: %s", status, receipt, body)
				}
			})
		}
	}
	calls.Wait()

	for _, refused := range []call{{token: "notify"}, {token: "control", owner: "ann"}} {
		refused.verb, refused.path = "GET", "/v1/call-counts"
		if status, body, _ := s.do(t, refused); status != http.StatusForbidden {
			t.Errorf("%+v: status %d: %s", refused, status, body)
		}
	}
	found, cursor := map[string]int{}, ""
	testkit.Wait(t, "every call is listed", func() error { // Transactions of other tests may hide rows for a while.
		for {
			_, body, _ := s.do(t, call{verb: "GET", path: "/v1/call-counts?limit=1&cursor=" + cursor, token: "control"})
			var page struct {
				Counts []struct {
					Metric string `json:"metric"`
					User   string `json:"user_id"`
					Calls  int    `json:"calls"`
				} `json:"counts"`
				Next string `json:"next_cursor"`
			}
			if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Counts) > 1 {
				t.Fatalf("%d counts, %v: %s", len(page.Counts), err, body)
			}
			cursor = page.Next
			if len(page.Counts) == 0 {
				break
			}
			found[page.Counts[0].User] += page.Counts[0].Calls
		}
		total := 0
		for _, n := range found {
			total += n
		}
		if total != users*perUser {
			return fmt.Errorf("%d calls are listed: %v", total, found)
		}
		return nil
	})
	for user, n := range found {
		if n != perUser {
			t.Errorf("%d calls of %s, want %d", n, user, perUser)
		}
	}
}
