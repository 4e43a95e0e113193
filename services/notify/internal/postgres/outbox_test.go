package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/testkit"
)

// channelRow and attemptRow insert rows as a dispatcher leaves them.
const (
	channelRow = `INSERT INTO channel_send (notification_id, channel, position, status, work, due_at, attempts, outcome, last_error,
		targeted_count, delivered_count, failed_count, removed_count, truncated, delivery_id, finished_at, deadline_at)
		VALUES ($1, $2, $3, $4, $5, NULL, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, now())`
	recipientRow = `INSERT INTO recipient (notification_id, channel, destination, status, due_at) VALUES ($1, $2, 'https://x', $3, $4)`
	attemptRow   = `INSERT INTO attempt (notification_id, channel, sub_id, number, outcome, response_code, error, retry_after_seconds, started_at, duration_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
)

func TestLogOfEveryState(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	outbox := postgres.NewOutbox(pool)
	a := accepted(t, inbox.Address{Organization: "acme"})
	if _, err := outbox.Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	sub := uuid.New()
	work := []byte("{}")
	testkit.Exec(t, pool, channelRow, a.ID, "slack", 1, "retrying", work, 1, "retry_after", "rate_limited", 1, 0, 0, 0, true, nil, nil)
	testkit.Exec(t, pool, channelRow, a.ID, "web_push", 2, "retrying", work, 3, "gone", "gone", 5, 1, 2, 1, false, nil, nil)
	testkit.Exec(t, pool, channelRow, a.ID, "webhook", 3, "failed", nil, 2, "permanent", "http_400", 1, 0, 1, 0, false, "dlv", at)
	testkit.Exec(t, pool, channelRow, a.ID, "email", 4, "queued", work, 0, nil, nil, 1, 0, 0, 0, false, nil, nil)
	testkit.Exec(t, pool, recipientRow, a.ID, "slack", "retrying", at)
	testkit.Exec(t, pool, recipientRow, a.ID, "web_push", "sending", at)
	testkit.Exec(t, pool, recipientRow, a.ID, "web_push", "retrying", at.Add(time.Hour))
	testkit.Exec(t, pool, recipientRow, a.ID, "web_push", "failed", nil)
	testkit.Exec(t, pool, recipientRow, a.ID, "email", "queued", at)
	testkit.Exec(t, pool, attemptRow, a.ID, "slack", nil, 1, "retry_after", 429, "rate_limited", 30.5, at, 12.5)
	testkit.Exec(t, pool, attemptRow, a.ID, "web_push", sub, 1, "gone", 410, "gone", nil, at, 3.0)

	log, err := outbox.Log(t.Context(), send.LogQuery{ID: a.ID, Organization: "acme", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	want := []send.ChannelLog{
		{Channel: channel.Slack, State: send.StateRetrying, Outcome: new("retry_after"), Attempts: 1, LastError: new("rate_limited"), DueAt: &at, Targeted: 1, Truncated: true},
		{Channel: channel.WebPush, State: send.StateSending, Outcome: new("gone"), Attempts: 3, LastError: new("gone"), DueAt: &at, Targeted: 5, Delivered: 1, Failed: 2, Removed: 1},
		{Channel: channel.Webhook, State: send.StateFailed, Outcome: new("permanent"), Attempts: 2, LastError: new("http_400"), Targeted: 1, Failed: 1, DeliveryID: new("dlv"), FinishedAt: &at},
		{Channel: channel.Email, State: send.StateQueued, DueAt: &at, Targeted: 1},
	}
	if diff := cmp.Diff(want, log.Channels[1:]); diff != "" {
		t.Errorf("channels (-want +got):\n%s", diff)
	}
	if sending, retrying := log.Channels[2], log.Channels[1]; sending.NextAttemptAt() != nil || retrying.NextAttemptAt() == nil {
		t.Errorf("next attempt: sending %v, retrying %v, want only the latter", sending.NextAttemptAt(), retrying.NextAttemptAt())
	}
	attempts := []send.Attempt{
		{Channel: channel.Slack, Number: 1, Outcome: "retry_after", Code: new(int32(429)), Error: new("rate_limited"), RetryAfter: new(30.5), StartedAt: at, Milliseconds: 12.5},
		{Channel: channel.WebPush, Subscription: &sub, Number: 1, Outcome: "gone", Code: new(int32(410)), Error: new("gone"), StartedAt: at, Milliseconds: 3},
	}
	ignore := cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Seq" }, cmp.Ignore())
	if diff := cmp.Diff(attempts, log.Attempts[1:], ignore); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

func TestLogPages(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	outbox := postgres.NewOutbox(pool)
	a := accepted(t, inbox.Address{Organization: "acme"})
	if _, err := outbox.Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for number := 2; number <= 5; number++ {
		testkit.Exec(t, pool, attemptRow, a.ID, "in_app", nil, number, "ok", nil, nil, nil, time.Now(), 0.0)
	}
	var numbers []int
	query := send.LogQuery{ID: a.ID, Organization: "acme", Limit: 2}
	for more := true; more; {
		log, err := outbox.Log(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		for _, attempt := range log.Attempts {
			numbers = append(numbers, attempt.Number)
			query.After = attempt.Seq
		}
		more = log.More
	}
	if diff := cmp.Diff([]int{1, 2, 3, 4, 5}, numbers); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	query.Organization = "other"
	if _, err := outbox.Log(t.Context(), query); !errors.Is(err, send.ErrNotFound) {
		t.Errorf("another organization's send: %v", err)
	}
}

// The schema itself refuses states that no code may leave.
func TestSchemaGuardsStates(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	a := accepted(t, inbox.Address{Organization: "acme"})
	if _, err := postgres.NewOutbox(pool).Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	statements := map[string]string{
		"open without a deadline":    "UPDATE channel_send SET status = 'queued', attempts = 0, outcome = NULL, work = '', delivered_count = 0, finished_at = NULL",
		"ended and expanding":        "UPDATE channel_send SET expanding = true",
		"a recipient never due":      "INSERT INTO recipient (notification_id, channel, destination, due_at) SELECT notification_id, 'email', '', NULL FROM channel_send",
		"delivered and due":          "UPDATE channel_send SET due_at = now()",
		"delivered, not finished":    "UPDATE channel_send SET finished_at = NULL",
		"delivered to nobody":        "UPDATE channel_send SET delivered_count = 0",
		"delivered and keeping work": "UPDATE channel_send SET work = 'secret'",
		"more ends than recipients":  "UPDATE channel_send SET failed_count = 1",
		"a count below zero":         "UPDATE inbox_counter SET unread = -1",
		"an unknown outcome":         "UPDATE attempt SET outcome = 'maybe'",
		"an error of a success":      "UPDATE attempt SET error = 'x'",
		"a record without an inbox":  "DELETE FROM inbox_counter",
	}
	for name, statement := range statements {
		t.Run(name, func(t *testing.T) {
			if _, err := pool.Exec(t.Context(), statement); err == nil {
				t.Error("the schema took it")
			}
		})
	}
}
