package postgres_test

import (
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/testkit"
)

// sent stores a notification as the service leaves it: channels are such as "email=failed", and those that have ended were
// queued before. It returns the id.
func sent(t *testing.T, pool *pgxpool.Pool, organization string, at time.Time, channels ...string) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Exec(t, pool, "INSERT INTO notification (id, organization_id, created_at) VALUES ($1, $2, $3)", id, organization, at)
	for i, c := range channels {
		name, state, _ := strings.Cut(c, "=")
		testkit.Exec(t, pool, `INSERT INTO channel_send (notification_id, channel, position, status, work, deadline_at)
			VALUES ($1, $2, $3, 'queued', '', now())`, id, name, i)
		switch state {
		case "delivered":
			testkit.Exec(t, pool, `UPDATE channel_send SET status = 'delivered', delivered_count = 1, work = NULL, finished_at = now()
				WHERE notification_id = $1 AND channel = $2`, id, name)
		case "failed":
			testkit.Exec(t, pool, `UPDATE channel_send SET status = 'failed', failed_count = 1, last_error = 'rejected', work = NULL,
				finished_at = now() WHERE notification_id = $1 AND channel = $2`, id, name)
		}
	}
	return id
}

// pages returns the ids of a list, read page by page.
func pages(t *testing.T, outbox *postgres.Outbox, q send.ListQuery) (ids []uuid.UUID) {
	t.Helper()
	for range 100 {
		page, next, err := outbox.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > q.Limit {
			t.Errorf("a page of %d, want %d at most", len(page), q.Limit)
		}
		for _, log := range page {
			ids = append(ids, log.ID)
		}
		if next.IsZero() {
			return ids
		}
		q.Before = next
	}
	t.Fatal("the list has no end")
	return nil
}

func TestListSends(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	outbox := postgres.NewOutbox(pool)
	begin := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	at := func(minute int) time.Time { return begin.Add(time.Duration(minute) * time.Minute) }
	all := []uuid.UUID{
		sent(t, pool, "acme", at(0), "email=delivered"),
		sent(t, pool, "beta", at(1), "email=failed"),
		sent(t, pool, "acme", at(2), "email=failed", "in_app=delivered"),
		sent(t, pool, "acme", at(3), "slack=failed", "email=failed"),
		sent(t, pool, "beta", at(4), "email=delivered", "slack=queued"),
		sent(t, pool, "acme", at(5), "slack=failed", "web_push=queued"),
		sent(t, pool, "beta", at(5), "in_app=delivered", "slack=failed"),
	}
	statuses := func(all ...send.Status) []send.Status { return all }
	for name, tt := range map[string]struct {
		query send.ListQuery
		want  []int
	}{
		"of all":                       {send.ListQuery{Every: true}, []int{6, 5, 4, 3, 2, 1, 0}},
		"of one":                       {send.ListQuery{Organization: "acme"}, []int{5, 3, 2, 0}},
		"of none":                      {send.ListQuery{}, nil},
		"pending":                      {send.ListQuery{Every: true, Statuses: statuses(send.StatusPending)}, []int{5, 4}},
		"delivered":                    {send.ListQuery{Every: true, Statuses: statuses(send.StatusDelivered)}, []int{0}},
		"partial":                      {send.ListQuery{Every: true, Statuses: statuses(send.StatusPartial)}, []int{6, 2}},
		"failed":                       {send.ListQuery{Every: true, Statuses: statuses(send.StatusFailed)}, []int{3, 1}},
		"failed or partial":            {send.ListQuery{Every: true, Statuses: statuses(send.StatusFailed, send.StatusPartial)}, []int{6, 3, 2, 1}},
		"failed or pending":            {send.ListQuery{Every: true, Statuses: statuses(send.StatusFailed, send.StatusPending)}, []int{5, 4, 3, 1}},
		"failed, of one":               {send.ListQuery{Organization: "beta", Statuses: statuses(send.StatusFailed)}, []int{1}},
		"by Slack":                     {send.ListQuery{Every: true, Channel: channel.Slack}, []int{6, 5, 4, 3}},
		"by Slack, of one":             {send.ListQuery{Organization: "acme", Channel: channel.Slack}, []int{5, 3}},
		"by e-mail, partial":           {send.ListQuery{Every: true, Channel: channel.Email, Statuses: statuses(send.StatusPartial)}, []int{2}},
		"from":                         {send.ListQuery{Every: true, From: at(4)}, []int{6, 5, 4}},
		"to":                           {send.ListQuery{Every: true, To: at(2)}, []int{1, 0}},
		"from and to, failed":          {send.ListQuery{Every: true, From: at(1), To: at(3), Statuses: statuses(send.StatusFailed)}, []int{1}},
		"from and to, of one":          {send.ListQuery{Organization: "acme", From: at(1), To: at(3)}, []int{2}},
		"from and to, failures of one": {send.ListQuery{Organization: "acme", From: at(1), To: at(3), Statuses: statuses(send.StatusPartial)}, []int{2}},
	} {
		var want []uuid.UUID
		for _, i := range tt.want {
			want = append(want, all[i])
		}
		// The two that were accepted at the same time are in the order of their ids.
		if i, j := slices.Index(want, all[6]), slices.Index(want, all[5]); i >= 0 && j >= 0 && all[5].String() > all[6].String() {
			want[i], want[j] = want[j], want[i]
		}
		for _, limit := range []int{1, 2, 3, 50} {
			tt.query.Limit = limit
			if diff := cmp.Diff(want, pages(t, outbox, tt.query)); diff != "" {
				t.Errorf("%s, pages of %d (-want +got):\n%s", name, limit, diff)
			}
		}
	}
}

// A send of a list is that of GetSend but for its attempts.
func TestListHasWhatTheLogHas(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	outbox := postgres.NewOutbox(pool)
	id := sent(t, pool, "acme", time.Now().Add(-time.Minute), "slack=failed", "email=delivered")
	want, err := outbox.Log(t.Context(), send.LogQuery{ID: id, Organization: "acme", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	page, _, err := outbox.List(t.Context(), send.ListQuery{Every: true, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]send.Log{want}, page); diff != "" || len(want.Channels) != 2 {
		t.Errorf("the list (-log +list):\n%s", diff)
	}
}

// A filter that selects little examines a bounded number of notifications for each page, and failures are found without
// examining the others.
func TestListOfSendsIsBounded(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	outbox := postgres.NewOutbox(pool)
	oldest := sent(t, pool, "acme", time.Now().Add(-24*time.Hour), "slack=failed")
	fill(t, pool, 10_500, "another")
	first, next, err := outbox.List(t.Context(), send.ListQuery{Every: true, Channel: channel.Slack, Limit: 10})
	if err != nil || len(first) != 0 || next.IsZero() {
		t.Fatalf("%d found, next %v, %v, want none and a further page", len(first), next, err)
	}
	if got := pages(t, outbox, send.ListQuery{Every: true, Channel: channel.Slack, Limit: 10}); !slices.Equal(got, []uuid.UUID{oldest}) {
		t.Errorf("found %v, want the oldest", got)
	}
	failures, next, err := outbox.List(t.Context(), send.ListQuery{Every: true, Statuses: []send.Status{send.StatusFailed}, Limit: 10})
	if err != nil || len(failures) != 1 || failures[0].ID != oldest || !next.IsZero() {
		t.Errorf("failures %v, next %v, %v, want the oldest alone in one page", failures, next, err)
	}
}

// fill stores n delivered notifications of the last hours.
func fill(t *testing.T, pool *pgxpool.Pool, n int, organization string) {
	t.Helper()
	testkit.Exec(t, pool, `WITH made AS (
			INSERT INTO notification (id, organization_id, created_at)
			SELECT gen_random_uuid(), $2, now() - n * interval '1 second' FROM generate_series(1, $1) AS n RETURNING id
		)
		INSERT INTO channel_send (notification_id, channel, position, status, delivered_count, finished_at)
		SELECT id, 'email', 0, 'delivered', 1, now() FROM made`, n, organization)
}

// newestQuery finds the generated statements that look for the notifications of a list.
var newestQuery = regexp.MustCompile("(?s)const newest[A-Za-z]+ = `-- name: ([A-Za-z]+) (.*?)`")

// The lists read an index in its order, whether a plan is made for the parameters or for any: nothing is sorted, and no
// table is read as a whole.
func TestPlansOfLists(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	fill(t, pool, 5000, "acme")
	testkit.Exec(t, pool, `INSERT INTO send_failure (notification_id, organization_id, created_at)
		SELECT id, organization_id, created_at FROM notification`)
	testkit.Exec(t, pool, "VACUUM ANALYZE")
	generated, err := os.ReadFile("dbsql/send.sql.go")
	if err != nil {
		t.Fatal(err)
	}
	indexes := map[string]string{
		"NewestSends": "notification_created", "NewestSendsOfOrganization": "notification_of_organization",
		"NewestFailures": "send_failure_created", "NewestFailuresOfOrganization": "send_failure_of_organization",
	}
	found := newestQuery.FindAllStringSubmatch(string(generated), -1)
	if len(found) != len(indexes) {
		t.Fatalf("%d statements, want %d", len(found), len(indexes))
	}
	for _, statement := range found {
		name, query := statement[1], "-- "+statement[2]
		values := "'-infinity', now(), 'ffffffff-ffff-ffff-ffff-ffffffffffff', 500"
		if strings.Contains(name, "OfOrganization") {
			values = "'acme', " + values
		}
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			if plan := planOf(t, pool, mode, query, values); strings.Contains(plan, "Sort") || strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, indexes[name]) {
				t.Errorf("%s, %s: want %s in its order:\n%s", name, mode, indexes[name], plan)
			}
		}
	}
}

// planOf returns the plan of a statement with a mode of plan_cache_mode.
func planOf(t *testing.T, pool *pgxpool.Pool, mode, query, values string) string {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, statement := range []string{"SET plan_cache_mode = " + mode, "DEALLOCATE ALL", "PREPARE planned AS " + query} {
		if _, err := conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE planned ("+values+")", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// Channels that failed before the migration are failures after it, and what has not failed is none.
func TestEarlierFailuresAreListed(t *testing.T) {
	url := testkit.PostgresURL(t, testkit.MigrationsBefore(t, migrations.FS, "00006"))
	pool := testkit.Pool(t, pgdb.Options{URL: url, MaxConns: 4, ApplicationName: t.Name()})
	failed := sent(t, pool, "acme", time.Now(), "email=failed", "slack=failed")
	sent(t, pool, "acme", time.Now(), "email=delivered", "slack=queued")
	if _, err := pgdb.Migrate(t.Context(), url, migrations.FS, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Value[uuid.UUID](t, pool, "SELECT notification_id FROM send_failure"); got != failed {
		t.Errorf("the failure of %s, want %s", got, failed)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM send_failure"); n != 1 {
		t.Errorf("%d failures, want 1", n)
	}
	testkit.Exec(t, pool, "DELETE FROM notification")
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM send_failure"); n != 0 {
		t.Errorf("%d failures of deleted sends", n)
	}
}
