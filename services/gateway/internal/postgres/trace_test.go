package postgres

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

// Each field of a record and of a content is read back as it was written.
func TestTracesComeBack(t *testing.T) {
	store := NewTraces(testkit.Postgres(t, migrations.FS))
	at := time.Date(2026, 11, 22, 10, 0, 0, 123456000, time.UTC)
	want := trace.Record{
		ID: uuid.New(), RequestID: "req_1", Organization: "acme", Run: "run", Key: "key", Service: "edge", Operation: "chat", Status: "failed", Stream: true,
		Parent: "req_0", ParentKind: trace.ParentReplay, W3CTrace: "4bf9", RequestedModel: "m", RequestedProvider: "alpha", RequestedGoal: "cost",
		Provider: "beta", Model: "m2", Credential: "fleet", Fingerprint: "0011", Route: "policy", PolicyVersion: "p1", PriceVersion: "beta/m2@2026-01-01",
		Classification: "internal", ApprovalRef: "apr", CacheHit: true, Substituted: true, Billed: true, Prompt: 1, Completion: 2, Cost: math.MaxInt64,
		Estimated: true, Error: "provider_error", ErrorClass: "upstream", HTTPStatus: 502,
		Attempts: []trace.Attempt{{
			Provider: "beta", Model: "m2", Credential: "fleet", Outcome: "failed", Class: "upstream", Error: "overloaded", HTTPStatus: 503,
			VendorID: "v-1", StartedAt: at, FirstTokenMs: 1.5, DurationMs: 2.25,
		}},
		Messages: 3, Tools: 4, RequestBytes: 5, ResponseBytes: 6, RequestDigest: bytes.Repeat([]byte{7}, 32), ResponseDigest: bytes.Repeat([]byte{8}, 32),
		StartedAt: at, FirstTokenMs: 9.125, DurationMs: 10.5, ExpiresAt: at.Add(time.Hour), Captured: true,
	}
	for field, value := range reflect.ValueOf(want).Fields() {
		if value.IsZero() {
			t.Errorf("%s has no value to lose", field.Name)
		}
	}
	content := trace.Content{
		Key: "k", Sealed: []byte{0, 1, 255}, Truncated: true, Replayable: true, CapturedAt: at.Add(time.Second), ExpiresAt: at.Add(time.Minute),
	}
	bare := trace.Entry{Record: trace.Record{
		ID: uuid.New(), RequestID: "req_2", Organization: "acme", Operation: "images", Status: "ok", StartedAt: at, ExpiresAt: at.Add(time.Hour),
	}}
	if err := store.Append(t.Context(), []trace.Entry{{Record: want, Content: &content}, bare}); err != nil {
		t.Fatal(err)
	}
	got, err := store.Get(t.Context(), "acme", "req_1", at)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	kept, err := store.Contents(t.Context(), []uuid.UUID{want.ID, bare.ID}, at)
	if diff := cmp.Diff(map[uuid.UUID]trace.Content{want.ID: content}, kept, cmpopts.EquateApproxTime(0)); err != nil || diff != "" {
		t.Errorf("contents, %v (-want +got):\n%s", err, diff)
	}
	// An entry that is stored already counts as stored; among others the batch is refused, and its entries are sent one
	// by one.
	if err := store.Append(t.Context(), []trace.Entry{bare}); err != nil {
		t.Errorf("once more: %v", err)
	}
	if err := store.Append(t.Context(), []trace.Entry{bare, {Record: want}}); !errors.Is(err, trace.ErrRefused) {
		t.Errorf("once more, beside another: %v, want ErrRefused", err)
	}
}

// Only Drop deletes a record's content with it, even a content with a longer retention.
func TestContentsGoWithTheirRecords(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := NewTraces(pool)
	now := time.Now()
	entry := func(expires time.Time) trace.Entry {
		return trace.Entry{
			Record: trace.Record{
				ID: uuid.New(), RequestID: "r", Organization: "acme", Operation: "chat", Status: "ok", StartedAt: now.Add(-time.Hour), ExpiresAt: expires,
			},
			Content: &trace.Content{Key: "k", Sealed: []byte("sealed"), CapturedAt: now, ExpiresAt: now.Add(time.Hour)},
		}
	}
	gone, stays := entry(now.Add(-time.Minute)), entry(now.Add(time.Hour))
	if err := store.Append(t.Context(), []trace.Entry{gone, stays}); err != nil {
		t.Fatal(err)
	}
	if n, err := store.Drop(t.Context(), now, 10); err != nil || n != 1 {
		t.Errorf("%d dropped, %v, want the record that has expired", n, err)
	}
	left, err := store.Contents(t.Context(), []uuid.UUID{gone.ID, stays.ID}, now)
	if _, ok := left[stays.ID]; err != nil || len(left) != 1 || !ok {
		t.Errorf("%d contents left, %v, want that of the other record", len(left), err)
	}
}
