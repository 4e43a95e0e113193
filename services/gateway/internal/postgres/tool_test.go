package postgres_test

import (
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

	"switchyard.dev/services/gateway/internal/mcp/definition"
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
		Concurrency: 3, PerMinute: 60, Version: 1, CreatedBy: "ada", CreatedAt: noon, UpdatedAt: noon, Features: toolserver.Features(),
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
	if err != nil || len(texts) != 2 || texts[all[0].Digest].ReviewedBy+texts[all[1].Digest].ReviewedBy != "bob" {
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
