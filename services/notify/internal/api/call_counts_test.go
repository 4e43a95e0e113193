package api_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/testkit"
)

// countRows returns the rows of a metric. A row with an id is the Recorder's, the others are of the records' transactions.
func (b *bench) countRows(t *testing.T, metric string) string {
	t.Helper()
	return testkit.Value[string](t, b.pool, `SELECT coalesce(string_agg(concat_ws(' ', CASE WHEN id IS NULL THEN 'with record' ELSE 'alone' END,
		organization_id, key_id, user_id, tags, calls), ', '), '') FROM call_count WHERE metric = $1`, metric)
}

// A successful call of the edge is counted once: with the record that it stores, or else alone.
func TestCallCounts(t *testing.T) {
	b := setup(t, withLetters)
	id := b.ask(t)
	full := b.ask(t)
	testkit.Exec(t, b.pool, `INSERT INTO notification (id, organization_id, updates_id, update_number)
		SELECT gen_random_uuid(), 'acme', $1, n FROM generate_series(1, 100) AS n`, full)
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM call_count"); n != 0 {
		t.Errorf("calls without a metric made %d rows", n)
	}

	const together, alone, none = `with record acme k1 ann {} 1`, `alone acme k1 ann {} 1`, ``
	const update, other = `{"message":"Done."}`, `{"message":"Failed."}`
	for _, tt := range []struct {
		metric, verb, path, body string
		headers                  []string
		status                   int
		rows                     string
	}{
		{"notify", "POST", "/v1/notify", ask, []string{"Idempotency-Key", "n"}, 202, together},
		{"notify-again", "POST", "/v1/notify", ask, []string{"Idempotency-Key", "n"}, 200, together},
		{"notify-key-reused", "POST", "/v1/notify", `{"channels":["in_app"],"message":"m"}`, []string{"Idempotency-Key", "n"}, 422, none},
		{"notify-nothing", "POST", "/v1/notify", `{}`, nil, 400, none},
		{"notify-of-product", "POST", "/v1/notify", ask, []string{"Authorization", "Bearer prd"}, 401, none},
		{"update", "POST", updatesOf(id), update, []string{"Idempotency-Key", "u"}, 202, together},
		{"update-again", "POST", updatesOf(id), update, []string{"Idempotency-Key", "u"}, 200, together},
		{"update-key-reused", "POST", updatesOf(id), other, []string{"Idempotency-Key", "u"}, 422, none},
		{"update-too-many", "POST", updatesOf(full), update, nil, 409, none},
		{"list", "GET", "/v1/notifications?user_id=ann", "", nil, 200, alone},
		{"read-all", "PUT", "/v1/notifications/read-all", `{"user_id":"ann"}`, nil, 200, alone},
		{"read-nothing", "GET", "/v1/notifications/sends/x", "", nil, 404, none},
		{"list-counts", "GET", "/v1/call-counts", "", nil, 403, none},
	} {
		t.Run(tt.metric, func(t *testing.T) {
			headers := append([]string{
				caller.HeaderCountMetric, tt.metric, caller.HeaderKey, "k1", caller.HeaderUser, "ann",
			}, tt.headers...)
			got := b.do(t, tt.verb, tt.path, tt.body, headers...)
			got.want(t, tt.status)
			if receipt := got.header.Get(callcount.HeaderCounted); (receipt == "1") != (tt.rows != none) {
				t.Errorf("receipt %q", receipt)
			}
			if rows := b.countRows(t, tt.metric); rows != tt.rows {
				t.Errorf("rows %q, want %q", rows, tt.rows)
			}
		})
	}
}

// Concurrent calls are counted once each. Operators page through the counts.
func TestConcurrentCallCounts(t *testing.T) {
	b := setup(t)
	const users, perUser = 4, 20
	var calls sync.WaitGroup
	for user := range users {
		for range perUser {
			calls.Go(func() {
				name := fmt.Sprint("user", user)
				b.notifyUser(t, name, "m", caller.HeaderUser, name, caller.HeaderCountMetric, "notifications")
			})
		}
	}
	calls.Wait()

	for _, token := range []string{"svc", "sup"} {
		b.do(t, "GET", "/v1/call-counts", "", "Authorization", "Bearer "+token).refused(t, http.StatusForbidden, "role operator")
	}
	found, cursor := map[string]int{}, ""
	testkit.Wait(t, "every call is listed", func() error { // Transactions of other tests may hide rows for a while.
		for {
			var page struct {
				Counts []struct {
					User  string `json:"user_id"`
					Calls int    `json:"calls"`
				} `json:"counts"`
				Next string `json:"next_cursor"`
			}
			b.do(t, "GET", "/v1/call-counts?limit=7&cursor="+cursor, "", "Authorization", "Bearer ops").into(t, http.StatusOK, &page)
			cursor = page.Next
			if len(page.Counts) == 0 {
				break
			}
			for _, count := range page.Counts {
				found[count.User] += count.Calls
			}
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
