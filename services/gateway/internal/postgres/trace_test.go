package postgres

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

// traceAt is when the traces of these tests begin.
var traceAt = time.Date(2026, 11, 22, 10, 0, 0, 123456000, time.UTC)

// fullTrace returns a trace with a value in each field.
func fullTrace() trace.Record {
	sealed := []byte{0, 1, 255}
	return trace.Record{
		ID: uuid.New(), RequestID: "req_1", Organization: "acme", Run: "run", Key: "key", Service: "edge", Operation: "chat", Status: "failed", Stream: true,
		Parent: "req_0", ParentKind: trace.ParentReplay, W3CTrace: "4bf9", RequestedModel: "m", RequestedProvider: "alpha", RequestedGoal: "cost",
		Provider: "beta", Model: "m2", Credential: "fleet", Fingerprint: "0011", Route: "policy", PolicyVersion: "p1", PriceVersion: "beta/m2@2026-01-01",
		Classification: "internal", ApprovalRef: "apr", CacheHit: true, Substituted: true, Billed: true, Prompt: 1, Completion: 2, Cost: math.MaxInt64,
		Estimated: true, Error: "provider_error", ErrorClass: "upstream", HTTPStatus: 502,
		Attempts: []trace.Attempt{{
			Provider: "beta", Model: "m2", Credential: "fleet", Outcome: "failed", Class: "upstream", Error: "overloaded", HTTPStatus: 503,
			VendorID: "v-1", StartedAt: traceAt, FirstTokenMs: 1.5, DurationMs: 2.25,
		}},
		Messages: 3, Tools: 4, RequestBytes: 5, ResponseBytes: 6, RequestDigest: bytes.Repeat([]byte{7}, 32), ResponseDigest: bytes.Repeat([]byte{8}, 32),
		StartedAt: traceAt, FirstTokenMs: 9.125, DurationMs: 10.5, ExpiresAt: traceAt.Add(time.Hour),
		Content: &trace.Content{
			Key: "k", Sealed: sealed, Size: len(sealed), Truncated: true, Replayable: true,
			CapturedAt: traceAt.Add(time.Second), ExpiresAt: traceAt.Add(time.Minute),
		},
	}
}

// traceWriters store records as this release does, and as releases before migration 00145 do.
var traceWriters = map[string]func(*testing.T, *pgxpool.Pool, ...trace.Record){"segments": appendTraces, "rows": insertTraceRows}

// Each field of a record and of its content is read back as it was written, by this release or by an earlier one.
func TestTracesComeBack(t *testing.T) {
	for name, write := range traceWriters {
		t.Run(name, func(t *testing.T) {
			pool := testkit.Postgres(t, migrations.FS)
			store, want := NewTraces(pool), fullTrace()
			for field, value := range reflect.ValueOf(want).Fields() {
				if value.IsZero() {
					t.Errorf("%s has no value to lose", field.Name)
				}
			}
			bare := trace.Record{
				ID: uuid.New(), RequestID: "req_2", Organization: "acme", Operation: "images", Status: "ok", StartedAt: traceAt, ExpiresAt: traceAt.Add(time.Hour),
			}
			write(t, pool, bare, want)
			got, err := store.List(t.Context(), trace.Filter{Organization: "acme", Request: "req_1", Limit: 2}, traceAt)
			if err != nil {
				t.Fatal(err)
			}
			place := cmpopts.IgnoreFields(trace.Content{}, "Sealed", "Segment", "Offset")
			if diff := gocmp.Diff([]trace.Record{want}, got, cmpopts.EquateApproxTime(0), place); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			sealed, err := store.Sealed(t.Context(), append(got, bare))
			if diff := gocmp.Diff(map[uuid.UUID][]byte{want.ID: want.Content.Sealed}, sealed); err != nil || diff != "" {
				t.Errorf("contents, %v (-want +got):\n%s", err, diff)
			}
			late, err := store.List(t.Context(), trace.Filter{Organization: "acme", Request: "req_1", Limit: 2}, traceAt.Add(time.Minute))
			if err != nil || len(late) != 1 || late[0].Content != nil {
				t.Errorf("%+v, %v, want the record without its content, which has expired", late, err)
			}
			if late, err = store.List(t.Context(), trace.Filter{Organization: "acme", Limit: 2}, traceAt.Add(time.Hour)); err != nil || len(late) != 0 {
				t.Errorf("%d records, %v, want none that have expired", len(late), err)
			}
		})
	}
}

func appendTraces(t *testing.T, pool *pgxpool.Pool, records ...trace.Record) {
	t.Helper()
	if err := NewTraces(pool).Append(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

// insertTraceRows stores records as releases before migration 00145 do.
func insertTraceRows(t *testing.T, pool *pgxpool.Pool, records ...trace.Record) {
	t.Helper()
	for i := range records {
		r := &records[i]
		testkit.Exec(t, pool, `
			INSERT INTO trace VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
				$24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, to_jsonb($35::jsonb), $36, $37, $38, $39, $40, $41, $42, $43, $44, $45)`,
			r.ID, r.RequestID, r.Organization, r.Run, r.Key, r.Service, r.Operation, r.Stream, r.Status, r.Parent, r.ParentKind, r.W3CTrace,
			r.RequestedModel, r.RequestedProvider, r.RequestedGoal, r.Provider, r.Model, r.Credential, r.Fingerprint, r.Route,
			r.PolicyVersion, r.PriceVersion, r.Classification, r.ApprovalRef, r.CacheHit, r.Substituted, r.Billed, r.Prompt, r.Completion,
			int64(r.Cost), r.Estimated, r.Error, r.ErrorClass, r.HTTPStatus, append([]trace.Attempt{}, r.Attempts...),
			r.Messages, r.Tools, r.RequestBytes, r.ResponseBytes, notNull(r.RequestDigest), notNull(r.ResponseDigest),
			r.StartedAt, r.FirstTokenMs, r.DurationMs, r.ExpiresAt)
		if c := r.Content; c != nil {
			testkit.Exec(t, pool, `
				INSERT INTO trace_content (id, key_id, sealed, truncated, replayable, captured_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
				r.ID, c.Key, c.Sealed, c.Truncated, c.Replayable, c.CapturedAt, c.ExpiresAt)
		}
	}
}

// Append stores a batch once, even a batch of several organizations.
func TestTracesAreStoredOnce(t *testing.T) {
	store := NewTraces(testkit.Postgres(t, migrations.FS))
	first, second := fullTrace(), fullTrace()
	second.Organization = "bolt"
	for range 2 {
		if err := store.Append(t.Context(), []trace.Record{first, second}); err != nil {
			t.Fatal(err)
		}
	}
	for _, organization := range []string{"acme", "bolt"} {
		found, err := store.List(t.Context(), trace.Filter{Organization: organization, Limit: 9}, traceAt)
		if err != nil || len(found) != 1 {
			t.Errorf("%d traces of %s, %v, want 1", len(found), organization, err)
		}
	}
}

// traceFilters are one filter of each kind over someTraces.
func traceFilters() map[string]trace.Filter {
	return map[string]trace.Filter{
		"all": {}, "request": {Request: "req-7"}, "run": {Run: "run-3"}, "operation": {Operation: "images"}, "provider": {Provider: "p1"},
		"model": {Model: "m2"}, "status": {Status: "failed"}, "replays": {ReplayOf: "req-7"}, "run and status": {Run: "run-3", Status: "ok"},
		"none": {Provider: "p1", Model: "m9"}, "since": {Since: traceAt.Add(50 * time.Minute)}, "until": {Until: traceAt.Add(50 * time.Minute)},
		"between":        {Since: traceAt.Add(20 * time.Minute), Until: traceAt.Add(100 * time.Minute)},
		"run, between":   {Run: "run-3", Since: traceAt.Add(20 * time.Minute), Until: traceAt.Add(100 * time.Minute)},
		"not of another": {Organization: "bolt"},
	}
}

// someTraces returns n traces that began within two hours, in no order. Some began at the same time, and some have the
// same request id.
func someTraces(chance *rand.Rand, n int) []trace.Record {
	records := make([]trace.Record, n)
	for i := range records {
		pick := func(prefix string, of int) string { return fmt.Sprint(prefix, chance.IntN(of)) }
		started := traceAt.Add(time.Duration(chance.IntN(120)) * time.Minute)
		r := trace.Record{
			ID: uuid.New(), RequestID: pick("req-", n/2), Organization: "acme", Run: pick("run-", 9), Provider: pick("p", 3), Model: pick("m", 4),
			Operation: "chat", Status: "ok", StartedAt: started, ExpiresAt: started.Add(24 * time.Hour),
		}
		if chance.IntN(9) == 0 {
			r.Organization = "bolt"
		}
		if chance.IntN(5) == 0 {
			r.Status, r.Error = "failed", "unknown"
		}
		if chance.IntN(5) == 0 {
			r.Operation = "images"
		}
		if chance.IntN(7) == 0 {
			r.Parent, r.ParentKind = "req-7", trace.ParentReplay
		}
		records[i] = r
	}
	return records
}

// List returns the selected records, newest first and each once. Some are stored in rows of an earlier release, some in
// small and large segments, and long calls share segments with short ones.
func TestTracePages(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store, chance := NewTraces(pool), rand.New(rand.NewPCG(1, 2))
	all := someTraces(chance, 400)
	insertTraceRows(t, pool, all[:40]...)
	for rest := all[40:]; len(rest) > 0; {
		n := min(1+chance.IntN(30), len(rest))
		appendTraces(t, pool, rest[:n]...)
		rest = rest[n:]
	}
	now := traceAt.Add(3 * time.Hour)
	for name, f := range traceFilters() {
		f.Organization = cmp.Or(f.Organization, "acme")
		f.Limit = len(all)
		want := selected(f, all)
		if name != "none" && len(want) == 0 {
			t.Errorf("%s selects nothing", name)
		}
		for _, f.Limit = range []int{1, 7, 201} {
			got := pages(t, store, f, now)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %d a page (-want +got):\n%s", name, f.Limit, diff)
			}
		}
	}
}

// selected returns the ids of the records that a filter selects, newest first.
func selected(f trace.Filter, records []trace.Record) []string {
	var found []trace.Record
	for _, r := range records {
		if r.Organization == f.Organization && (f.Request == "" || f.Request == r.RequestID) && (f.Run == "" || f.Run == r.Run) &&
			(f.Operation == "" || f.Operation == r.Operation) && (f.Provider == "" || f.Provider == r.Provider) &&
			(f.Model == "" || f.Model == r.Model) && (f.Status == "" || f.Status == r.Status) && (f.ReplayOf == "" || f.ReplayOf == r.Parent) &&
			!r.StartedAt.Before(f.Since) && (f.Until.IsZero() || r.StartedAt.Before(f.Until)) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b trace.Record) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), strings.Compare(b.ID.String(), a.ID.String()))
	})
	return traceIDs(found)
}

func traceIDs(records []trace.Record) []string {
	ids := make([]string, len(records))
	for i := range records {
		ids[i] = records[i].ID.String()
	}
	return ids
}

// pages returns the ids of all pages of a list.
func pages(t *testing.T, store *Traces, f trace.Filter, now time.Time) []string {
	t.Helper()
	ids := []string{}
	for {
		page, err := store.List(t.Context(), f, now)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, traceIDs(page)...)
		if len(page) < f.Limit {
			return ids
		}
		last := &page[len(page)-1]
		f.Before = trace.Position{StartedAt: last.StartedAt, ID: last.ID}
	}
}

// Latest returns the newest record of a request id for each organization that used it.
func TestLatestTraces(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store, now := NewTraces(pool), traceAt.Add(time.Minute)
	shared := func(organization string, after time.Duration) trace.Record {
		r := fullTrace()
		r.Organization, r.RequestID, r.StartedAt = organization, "shared", traceAt.Add(after)
		return r
	}
	old, other, latest, third := shared("acme", 0), shared("bolt", 2*time.Second), shared("acme", 3*time.Second), shared("cog", 5*time.Second)
	third.ExpiresAt = now
	insertTraceRows(t, pool, old, shared("bolt", time.Second))
	appendTraces(t, pool, latest)
	appendTraces(t, pool, other, third, shared("acme", time.Second))
	for organization, want := range map[string][]string{
		"": traceIDs([]trace.Record{latest, other}), "acme": {latest.ID.String()}, "bolt": {other.ID.String()}, "cog": {}, "dot": {},
	} {
		found, err := store.Latest(t.Context(), organization, "shared", 9, now)
		if err != nil || !slices.Equal(traceIDs(found), want) {
			t.Errorf("of %q: %v, %v, want %v", organization, traceIDs(found), err, want)
		}
	}
	if found, err := store.Latest(t.Context(), "", "shared", 1, now); err != nil || len(found) != 1 || found[0].ID != latest.ID {
		t.Errorf("%v, %v, want one", traceIDs(found), err)
	}
}

// Drop deletes contents when they expire, and records with the rest of their contents.
func TestTracesAreDropped(t *testing.T) {
	for name, write := range traceWriters {
		t.Run(name, func(t *testing.T) {
			pool := testkit.Postgres(t, migrations.FS)
			store, record := NewTraces(pool), fullTrace()
			write(t, pool, record)
			for _, step := range []struct {
				after                    time.Duration
				drops, records, contents int
			}{{time.Second, 0, 1, 1}, {time.Minute, 1, 1, 0}, {time.Minute, 0, 1, 0}, {time.Hour, 1, 0, 0}} {
				if n, err := store.Drop(t.Context(), traceAt.Add(step.after), 10); err != nil || n != step.drops {
					t.Errorf("after %s: %d dropped, %v, want %d", step.after, n, err, step.drops)
				}
				found, err := store.List(t.Context(), trace.Filter{Organization: "acme", Limit: 9}, traceAt)
				if err != nil || len(found) != step.records {
					t.Errorf("after %s: %d records, %v, want %d", step.after, len(found), err, step.records)
				}
				if sealed, err := store.Sealed(t.Context(), found); err != nil || len(sealed) != step.contents {
					t.Errorf("after %s: %d contents, %v, want %d", step.after, len(sealed), err, step.contents)
				}
			}
		})
	}
}

// Erase deletes one organization's contents. It leaves all records, and other organizations' contents.
func TestTracesAreErased(t *testing.T) {
	for name, write := range traceWriters {
		t.Run(name, func(t *testing.T) {
			pool := testkit.Postgres(t, migrations.FS)
			store, gone, other := NewTraces(pool), fullTrace(), fullTrace()
			other.Organization = "bolt"
			write(t, pool, gone, other)
			if n, err := store.Erase(t.Context(), "acme", traceAt.Add(time.Hour), 10); err != nil || n != 1 {
				t.Errorf("%d erased, %v, want 1", n, err)
			}
			for organization, want := range map[string]bool{"acme": false, "bolt": true} {
				found, err := store.List(t.Context(), trace.Filter{Organization: organization, Limit: 9}, traceAt)
				if err != nil || len(found) != 1 || found[0].Replayable() != want {
					t.Errorf("of %s: %+v, %v, want one record, replayable %t", organization, found, err, want)
				}
			}
		})
	}
}
