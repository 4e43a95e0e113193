package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/listing"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/testkit"
)

// A server that shows another definition each time leaves a bounded number of rows.
func TestFlippingDefinitionsAreBounded(t *testing.T) {
	b := newToolBench(t)
	key := b.registered()
	for i := range 40 {
		b.list(key, fmt.Sprintf(`a={"v":%d}`, i), fmt.Sprintf(`b={"v":%d}`, i), fmt.Sprintf(`t%d={}`, i))
		if i%2 == 0 {
			b.review(key, "b", definition.Reject)
		}
	}
	b.review(key, "a", definition.Approve)
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM tool_definition"); n > 1+11+1 {
		t.Errorf("%d rows", n)
	}
}

// Claim takes the listing that has been due for longest, except listings of organizations that already use their share
// of workers.
func TestToolListingClaimLeavesOrganizationsOut(t *testing.T) {
	b := newToolBench(t)
	for i, organization := range []string{"a", "a", "b"} {
		s := files(organization)
		s.ID, s.Prefix = fmt.Sprintf("files-%d", i), fmt.Sprintf("f%d", i)
		b.register(s)
	}
	for _, tt := range []struct {
		full []string
		want string
	}{{nil, "a"}, {[]string{"a"}, "b"}, {[]string{"a", "b"}, ""}, {[]string{"b"}, "a"}, {nil, ""}} {
		claim, ok, err := b.listings.Claim(t.Context(), time.Minute, tt.full)
		if err != nil || claim.Server.Organization != tt.want || ok != (tt.want != "") {
			t.Errorf("without %v: %v of %q, %v; want %q", tt.full, ok, claim.Server.Organization, err, tt.want)
		}
	}
}

// One replica at a time has a listing, and a result counts only under its lease.
func TestToolListingLeases(t *testing.T) {
	b := newToolBench(t)
	s := b.register(files("acme"))
	key := s.Key()
	claims := make(chan listing.Claim, 20)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if claim, ok, err := b.listings.Claim(t.Context(), time.Minute, nil); err != nil {
				t.Error(err)
			} else if ok {
				claims <- claim
			}
		})
	}
	group.Wait()
	if len(claims) != 1 {
		t.Fatalf("%d replicas have the listing", len(claims))
	}
	claim := <-claims
	if diff := cmp.Diff(s, claim.Server); diff != "" {
		t.Errorf("(-registered +claimed):\n%s", diff)
	}
	if _, ok, err := b.listings.ClaimOf(t.Context(), key, time.Minute); ok || err != nil {
		t.Errorf("claimed twice: %v", err)
	}
	// The server moves meanwhile: what was listed is another's.
	if _, err := b.servers.Change(t.Context(), key, entry("tool_server.update", "acme", "files"), func(present *toolserver.Server) (toolserver.Server, error) {
		next := *present
		next.URL, next.Version = "https://other.example", 2
		return next, nil
	}); err != nil {
		t.Fatal(err)
	}
	listed := b.read(key, "a={}")
	if _, err := b.listings.Settle(t.Context(), &claim, "1", listed, entry("tool_server.list", "acme", "files")); !errors.Is(err, listing.ErrLost) {
		t.Errorf("settled by a lost lease: %v", err)
	}
	if err := b.listings.Fail(t.Context(), &claim, listing.Error{Class: listing.ClassTimeout}, time.Second); !errors.Is(err, listing.ErrLost) {
		t.Errorf("failed by a lost lease: %v", err)
	}
	due := func(context string, want bool) {
		t.Helper()
		if _, ok, err := b.listings.Claim(t.Context(), time.Microsecond, nil); ok != want || err != nil {
			t.Errorf("%s: due %v, %v", context, ok, err)
		}
		// The hold has ended at once.
	}
	due("after the move", true)
	claim, _, err := b.listings.ClaimOf(t.Context(), key, time.Minute)
	if err != nil || claim.Server.URL != "https://other.example" {
		t.Fatalf("%+v, %v", claim, err)
	}
	if err := b.listings.Hurry(t.Context(), key, 0); err != nil { // It announces a change while it is listed.
		t.Fatal(err)
	}
	if _, err := b.listings.Settle(t.Context(), &claim, "1", listed, entry("tool_server.list", "acme", "files")); err != nil {
		t.Fatal(err)
	}
	due("a change while it was listed", true)
	b.list(key, "a={}")
	due("after a listing", false)
	if err := b.listings.Hurry(t.Context(), key, time.Hour); err != nil {
		t.Fatal(err)
	}
	due("hurried too soon", false)
	if err := b.listings.Use(t.Context(), []listing.Use{{Key: key, After: -time.Hour}, {Key: toolserver.Key{ID: "none"}}}); err != nil {
		t.Fatal(err)
	}
	due("used, after a while", true)
	claim, _, _ = b.listings.ClaimOf(t.Context(), key, time.Minute)
	if err := b.listings.Fail(t.Context(), &claim, listing.Error{Class: listing.ClassTimeout, Text: "late"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	states, err := b.definitions.States(t.Context(), []toolserver.Key{key})
	if s := states[key]; err != nil || s.Failures != 1 || s.ErrorClass != "timeout" || s.ErrorText != "late" || s.ErrorAt.IsZero() || s.ListedAt.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
	for _, hurry := range []func() error{
		func() error { return b.listings.Hurry(t.Context(), key, -time.Hour) },
		func() error { return b.listings.Use(t.Context(), []listing.Use{{Key: key, After: -time.Hour}}) },
	} {
		if err := hurry(); err != nil {
			t.Fatal(err)
		}
		due("a failing server has its own wait", false)
	}
	claim, _, _ = b.listings.ClaimOf(t.Context(), key, time.Minute)
	if claim.Failures != 1 {
		t.Errorf("%d failures", claim.Failures)
	}
	if err := b.listings.Fail(t.Context(), &claim, listing.Error{Class: listing.ClassTimeout}, 0); err != nil {
		t.Fatal(err)
	}
	due("given up", false)
	if err := b.listings.Use(t.Context(), []listing.Use{{Key: key, After: -time.Hour}}); err != nil {
		t.Fatal(err)
	}
	due("given up, and used", true)
}

// The schema itself allows no definition that counts without a review, and no two present ones of a tool.
func TestToolSchema(t *testing.T) {
	b := newToolBench(t)
	key := b.registered()
	b.list(key, `a={"v":1}`)
	for _, statement := range []string{
		"UPDATE tool_definition SET status = 'approved'",
		"UPDATE tool_definition SET status = 'approved', reviewed_at = now()",
		"UPDATE tool_definition SET present = false, gone_at = now()",
		"INSERT INTO tool_definition SELECT organization_id, server_id, tool, sha256(digest), definition, status, present, first_seen_at FROM tool_definition",
		"UPDATE tool_server SET command = 'git'",
		"UPDATE tool_server SET custody = ''",
		"UPDATE tool_server SET prefix = 'a__b'",
		"UPDATE tool_server SET status = 'removed'",
		"UPDATE tool_server SET price_pico_usd = -1",
		"UPDATE tool_listing SET failures = 1",
	} {
		if _, err := b.pool.Exec(t.Context(), statement); err == nil {
			t.Errorf("%s was allowed", statement)
		}
	}
}

// A replica follows the topic of tools: the migration has made it.
func TestToolTopic(t *testing.T) {
	b := newToolBench(t)
	b.register(files("acme"))
	versions, err := b.control.Versions(context.Background())
	if err != nil || versions[control.Tools] != 1 {
		t.Errorf("versions %v, %v", versions, err)
	}
	entries, err := b.control.List(t.Context(), audit.Filter{Action: "tool_server.", Limit: 10})
	if err != nil || len(entries) != 1 || entries[0].Organization != "acme" {
		t.Errorf("%+v, %v", entries, err)
	}
}
