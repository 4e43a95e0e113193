package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/listing"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/testkit"
)

// toolBench are the stores of tool servers over one database, with a replica that follows them.
type toolBench struct {
	t           *testing.T
	pool        *pgxpool.Pool
	control     *postgres.Control
	servers     *postgres.ToolServers
	definitions *postgres.ToolDefinitions
	listings    *postgres.ToolListings
	registry    *definition.Registry
	level       int64
}

func newToolBench(t *testing.T) *toolBench {
	t.Helper()
	c, pool, _ := newControl(t)
	servers := postgres.NewToolServers(c)
	return &toolBench{t, pool, c, servers, postgres.NewToolDefinitions(c), postgres.NewToolListings(c), definition.NewRegistry(servers), 0}
}

func files(organization string) toolserver.Server {
	return toolserver.Server{
		Organization: organization, ID: "files", Prefix: "f", URL: "https://files.example/mcp", Price: 1234567890123, Timeout: 7 * time.Second,
		Credential: toolserver.Credential{
			Custody: toolserver.CustodySealed, Header: "Authorization", Scheme: "Bearer", KeyID: "k", Ciphertext: []byte{1, 2}, Fingerprint: "fp",
		},
		Concurrency: 3, PerMinute: 60, Version: 1, CreatedBy: "ada", CreatedAt: noon, UpdatedAt: noon,
	}
}

func (b *toolBench) register(s toolserver.Server) toolserver.Server {
	b.t.Helper()
	stored, err := b.servers.Change(b.t.Context(), s.Key(), entry("tool_server.register", s.Organization, s.ID), func(present *toolserver.Server) (toolserver.Server, error) {
		if present != nil {
			return s, toolserver.ErrExists
		}
		return s, nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return stored
}

// registered registers files and returns its key.
func (b *toolBench) registered() toolserver.Key {
	b.t.Helper()
	s := b.register(files("acme"))
	return s.Key()
}

// list stores a listing of a server: "name=definition".
func (b *toolBench) list(key toolserver.Key, tools ...string) definition.Changes {
	b.t.Helper()
	claim, ok, err := b.listings.ClaimOf(b.t.Context(), key, time.Minute)
	if err != nil || !ok {
		b.t.Fatal(ok, err)
	}
	changes, err := b.listings.Settle(b.t.Context(), &claim, "2026-07-28", b.read(key, tools...), entry("tool_server.list", key.Organization, key.ID))
	if err != nil {
		b.t.Fatal(err)
	}
	return changes
}

func (b *toolBench) read(key toolserver.Key, tools ...string) []definition.Definition {
	b.t.Helper()
	var l definition.Listing
	for _, tool := range tools {
		name, text, _ := strings.Cut(tool, "=")
		l.Tools = append(l.Tools, definition.Listed{Name: name, Text: json.RawMessage(text)})
	}
	listed, err := definition.Read(func(text []byte) ([]byte, error) {
		value := jsontext.Value(text).Clone()
		err := value.Canonicalize()
		return value, err
	}, key, &l)
	if err != nil {
		b.t.Fatal(err)
	}
	return listed
}

func (b *toolBench) review(key toolserver.Key, tool string, verdict definition.Verdict) definition.Reviewed {
	b.t.Helper()
	all, err := b.definitions.List(b.t.Context(), key, "", "", 100)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, d := range all {
		if d.Name == tool {
			reviewed, err := b.definitions.Review(b.t.Context(), key, tool, d.Digest, &definition.Review{Verdict: verdict, By: "bob", Reason: "why"}, noon, entry("tool_definition.approve", key.Organization, key.ID))
			if err != nil {
				b.t.Fatal(err)
			}
			return reviewed
		}
	}
	b.t.Fatalf("no tool %s", tool)
	return definition.Reviewed{}
}

// follow loads what changed, and returns whether anything did.
func (b *toolBench) follow() bool {
	b.t.Helper()
	level, err := b.registry.Load(b.t.Context(), b.level)
	if err != nil {
		b.t.Fatal(err)
	}
	changed := level != b.level
	b.level = level
	return changed
}

func TestToolServerIsKept(t *testing.T) {
	b := newToolBench(t)
	want := b.register(files("acme"))
	key := want.Key()
	got, err := b.servers.Get(t.Context(), key)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-stored +kept):\n%s", err, diff)
	}
	b.follow()
	if diff := cmp.Diff(want, b.registry.Find("acme", "files").Server); diff != "" {
		t.Errorf("(-stored +followed):\n%s", diff)
	}
	broken := errors.New("broken")
	if _, err := b.servers.Change(t.Context(), key, entry("tool_server.update", "acme", "files"), func(*toolserver.Server) (toolserver.Server, error) { return toolserver.Server{}, broken }); !errors.Is(err, broken) || b.follow() {
		t.Errorf("a change that fails: %v", err)
	}
	for _, of := range []string{"bolt", ""} {
		if _, err := b.servers.Get(t.Context(), toolserver.Key{Organization: of, ID: "files"}); !errors.Is(err, toolserver.ErrNotFound) {
			t.Errorf("of %q: %v", of, err)
		}
	}
	// A removed server leaves a row without what it held, for as long as replicas need it.
	b.list(key, "read={}")
	if err := b.servers.Remove(t.Context(), key, noon, entry("tool_server.remove", "acme", "files")); err != nil {
		t.Fatal(err)
	}
	if b.follow(); b.registry.Find("acme", "files") != nil {
		t.Error("the replica still knows it")
	}
	if err := b.servers.Remove(t.Context(), key, noon, entry("tool_server.remove", "acme", "files")); !errors.Is(err, toolserver.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	if left := testkit.Value[string](t, b.pool, "SELECT status || url || custody || fingerprint || coalesce(ciphertext::text, '') FROM tool_server"); left != "removed" {
		t.Errorf("left: %s", left)
	}
	for _, table := range []string{"tool_definition", "tool_listing"} {
		if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("%d rows of %s", n, table)
		}
	}
	if again := b.register(files("acme")); again.Version != 2 {
		t.Errorf("registered again with version %d", again.Version)
	}
	other := files("acme")
	other.ID, other.Prefix = "other", "o"
	b.register(other)
	if err := b.servers.Remove(t.Context(), other.Key(), noon, entry("tool_server.remove", "acme", "other")); err != nil {
		t.Fatal(err)
	}
	if err := b.servers.Remove(t.Context(), key, noon.Add(definition.RemovedFor+time.Second), entry("tool_server.remove", "acme", "files")); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM tool_server"); n != 1 {
		t.Errorf("%d rows are left", n)
	}
}

func TestToolPrefixes(t *testing.T) {
	b := newToolBench(t)
	shared := files("")
	b.register(shared)
	try := func(organization, id, prefix string) error {
		s := files(organization)
		s.ID, s.Prefix = id, prefix
		_, err := b.servers.Change(t.Context(), s.Key(), entry("tool_server.register", organization, id), func(*toolserver.Server) (toolserver.Server, error) { return s, nil })
		return err
	}
	for _, test := range []struct {
		organization, id, prefix string
		want                     error
	}{
		{"acme", "mine", "f", toolserver.ErrPrefix}, // That of all has it.
		{"acme", "files", "f", nil},                 // It stands in its place.
		{"acme", "mine", "m", nil},
		{"acme", "other", "m", toolserver.ErrPrefix},
		{"bolt", "other", "m", nil},
		{"", "other", "m", nil}, // An organization's own takes precedence.
		{"", "more", "f", toolserver.ErrPrefix},
		{"acme", "mine", "f", toolserver.ErrPrefix}, // Its own "files" has it.
	} {
		if err := try(test.organization, test.id, test.prefix); !errors.Is(err, test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// Of concurrent registrations with one prefix, one holds.
func TestConcurrentRegistrations(t *testing.T) {
	b := newToolBench(t)
	var group sync.WaitGroup
	held := make(chan string, 20)
	for i := range 20 {
		group.Go(func() {
			s := files("acme")
			s.ID = fmt.Sprint("s", i)
			_, err := b.servers.Change(t.Context(), s.Key(), entry("tool_server.register", "acme", s.ID), func(*toolserver.Server) (toolserver.Server, error) { return s, nil })
			if err == nil {
				held <- s.ID
			} else if !errors.Is(err, toolserver.ErrPrefix) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(held) != 1 {
		t.Errorf("%d servers have the prefix", len(held))
	}
}

func TestToolDefinitionsAreKept(t *testing.T) {
	b := newToolBench(t)
	key := b.registered()
	if changes := b.list(key, `read={"v":1}`, `write={"v":1}`); len(changes.New) != 2 {
		t.Errorf("%+v", changes)
	}
	reviewed := b.review(key, "read", definition.Approve)
	if reviewed.Status != definition.Approved || string(reviewed.Text) != `{"v":1}` {
		t.Errorf("%+v", reviewed)
	}
	b.review(key, "write", definition.Reject)
	b.follow()
	// The same listing changes nothing: no topic, no audit.
	entries := testkit.Value[int](t, b.pool, "SELECT count(*) FROM audit_entry")
	if changes := b.list(key, `write={"v":1}`, `read={ "v": 1 }`); !changes.Empty() || b.follow() || testkit.Value[int](t, b.pool, "SELECT count(*) FROM audit_entry") != entries {
		t.Errorf("%+v", changes)
	}
	b.list(key, `read={"v":2}`, `new={}`)
	b.follow()
	e := b.registry.Find("acme", "files")
	if _, err := e.Check("read"); !errors.Is(err, definition.ErrChanged) || !e.Changed() || e.Pending() != 2 {
		t.Errorf("%v, %d pending", err, e.Pending())
	}
	all, err := b.definitions.List(t.Context(), key, "", "", 10)
	if err != nil || len(all) != 3 || all[1].Before == nil || string(all[1].Before.Text) != `{"v":1}` || all[1].Before.Digest != reviewed.Digest {
		t.Fatalf("%+v, %v", all, err)
	}
	if write := all[2]; write.Present || write.Status != definition.Rejected || write.ReviewedBy != "bob" || write.Reason != "why" || !write.ReviewedAt.Equal(noon) || write.SeenAt.IsZero() {
		t.Errorf("%+v", write)
	}
	for want, got := range map[string][]string{"pending": {"new", "read"}, "rejected": {"write"}, "approved": nil} {
		page, err := b.definitions.List(t.Context(), key, definition.Status(want), "", 10)
		var names []string
		for _, d := range page {
			names = append(names, d.Name)
		}
		if err != nil || strings.Join(names, " ") != strings.Join(got, " ") {
			t.Errorf("%s: %v, %v", want, names, err)
		}
	}
	// An approval replaces the one before; the definition before is none any more.
	b.review(key, "read", definition.Approve)
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM tool_definition WHERE tool = 'read'"); n != 1 {
		t.Errorf("%d definitions of read", n)
	}
	texts, err := b.definitions.Texts(t.Context(), key)
	if err != nil || len(texts) != 2 {
		t.Errorf("%v, %v", texts, err)
	}
	state, err := b.definitions.States(t.Context(), []toolserver.Key{key, {ID: "none"}})
	if s := state[key]; err != nil || len(state) != 1 || s.Digest != definition.Sum(b.read(key, `read={"v":2}`, `new={}`)) || s.ListedAt.IsZero() || s.ProtocolVersion != "2026-07-28" || s.Failures != 0 {
		t.Errorf("%+v, %v", state, err)
	}
	if _, err := b.definitions.Review(t.Context(), key, "new", definition.Digest{}, &definition.Review{Verdict: definition.Approve, By: "ada"}, noon, entry("tool_definition.approve", "acme", "files")); !errors.Is(err, definition.ErrNotIndependent) {
		t.Errorf("by the registrar: %v", err)
	}
}

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

// One replica at a time has a listing, and a result counts only under its lease.
func TestToolListingLeases(t *testing.T) {
	b := newToolBench(t)
	s := b.register(files("acme"))
	key := s.Key()
	claims := make(chan listing.Claim, 20)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if claim, ok, err := b.listings.Claim(t.Context(), time.Minute); err != nil {
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
		if _, ok, err := b.listings.Claim(t.Context(), time.Microsecond); ok != want || err != nil {
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
