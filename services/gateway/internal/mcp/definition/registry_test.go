package definition

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

// feed is a store in memory.
type feed struct {
	revision int64
	changes  map[toolserver.Key]Change
	loads    int
	err      error
}

func (f *feed) put(organization, id, prefix string, known ...Known) {
	f.revision++
	s := toolserver.Server{Organization: organization, ID: id, Prefix: prefix}
	f.changes[s.Key()] = Change{Key: s.Key(), Revision: f.revision, Entry: NewEntry(s, f.revision, known)}
}

func (f *feed) remove(organization, id string) {
	f.revision++
	key := toolserver.Key{Organization: organization, ID: id}
	f.changes[key] = Change{Key: key, Revision: f.revision}
}

func (f *feed) Revision(context.Context) (int64, error) { return f.revision, f.err }

func (f *feed) ChangedSince(_ context.Context, after Change, limit int) (page []Change, err error) {
	f.loads++
	order := func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), strings.Compare(a.Key.Organization, b.Key.Organization), strings.Compare(a.Key.ID, b.Key.ID))
	}
	for _, c := range f.changes {
		if order(c, after) > 0 {
			page = append(page, c)
		}
	}
	slices.SortFunc(page, order)
	return page[:min(limit, len(page))], f.err
}

func names(entries []*Entry) (all string) {
	for _, e := range entries {
		all += e.Server.Organization + "/" + e.Server.ID + " "
	}
	return all
}

func TestRegistry(t *testing.T) {
	f := &feed{changes: make(map[toolserver.Key]Change)}
	r := NewRegistry(f)
	level := int64(0)
	load := func() {
		t.Helper()
		var err error
		if level, err = r.Load(t.Context(), level); err != nil || level != f.revision {
			t.Fatalf("level %d, %v", level, err)
		}
	}
	load()
	if r.Find("acme", "files") != nil || r.Prefixed("acme", "f") != nil || len(r.Servers("acme")) != 0 {
		t.Error("an empty registry knows servers")
	}
	f.put("", "docs", "d")
	f.put("", "search", "s")
	f.put("acme", "docs", "own")
	f.put("acme", "mine", "s")
	f.put("bolt", "files", "f")
	load()
	for got, want := range map[string]string{
		names(r.Servers("acme")): "acme/docs acme/mine /search ", names(r.Exposed("acme")): "acme/docs acme/mine ",
		names(r.Servers("bolt")): "/docs bolt/files /search ", names(r.Exposed("bolt")): "/docs bolt/files /search ",
		names(r.Servers("")): "/docs /search ", names(r.Servers("none")): "/docs /search ",
		names([]*Entry{r.Find("acme", "docs"), r.Find("acme", "search"), r.Prefixed("acme", "s"), r.Prefixed("bolt", "s")}): "acme/docs /search acme/mine /search ",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if r.Find("acme", "files") != nil || r.Prefixed("acme", "d") != nil || r.Exactly(toolserver.Key{Organization: "acme", ID: "search"}) != nil {
		t.Error("found another's server, or one that an own one stands in the place of")
	}
	// What changed is loaded, and no more.
	f.remove("acme", "docs")
	f.put("bolt", "files", "g", Known{Name: "read", Status: Approved, Present: true})
	before := f.loads
	load()
	if f.loads != before+1 || names([]*Entry{r.Find("acme", "docs"), r.Prefixed("bolt", "g")}) != "/docs bolt/files " || r.Prefixed("bolt", "f") != nil {
		t.Errorf("%d loads: %s", f.loads-before, names(r.Servers("bolt")))
	}
	if _, err := r.Find("bolt", "files").Check("read"); err != nil {
		t.Errorf("read: %v", err)
	}
	// Many servers are many pages.
	for i := range 2*pageSize + 1 {
		f.put("many", strings.Repeat("x", i+1), strings.Repeat("y", i+1))
	}
	load()
	if n := len(r.Servers("many")); n != 2*pageSize+3 {
		t.Errorf("%d servers", n)
	}
	// A failure changes nothing.
	f.err = errors.New("away")
	f.remove("bolt", "files")
	if since, err := r.Load(t.Context(), level); err == nil || since != level || r.Find("bolt", "files") == nil {
		t.Errorf("%d, %v", since, err)
	}
}

// The store forgets what was removed long ago: a replica that was away for longer loads everything.
func TestRegistryForgets(t *testing.T) {
	f := &feed{changes: make(map[toolserver.Key]Change)}
	r := NewRegistry(f)
	now := noon
	r.now = func() time.Time { return now }
	f.put("acme", "files", "f")
	f.put("acme", "mine", "m")
	level, err := r.Load(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	delete(f.changes, toolserver.Key{Organization: "acme", ID: "files"})
	f.revision++
	now = now.Add(RemovedFor)
	if _, err := r.Load(t.Context(), level); err != nil || r.Find("acme", "files") != nil || r.Find("acme", "mine") == nil {
		t.Errorf("%v: %s", err, names(r.Servers("acme")))
	}
}

// texts counts its reads.
type textStore struct {
	reads int
	of    map[Digest]Text
	err   error
}

func (s *textStore) Texts(context.Context, toolserver.Key) (map[Digest]Text, error) {
	s.reads++
	return s.of, s.err
}

func TestTexts(t *testing.T) {
	a, b := Digest{1}, Digest{2}
	store := &textStore{of: map[Digest]Text{a: {json.RawMessage(`{"a":1}`), "bob"}}}
	texts := NewTexts(store)
	entry := func(revision int64, id string) *Entry {
		return NewEntry(toolserver.Server{ID: id}, revision, []Known{{Name: "b", Digest: b, Status: Pending, Present: true}, {Name: "a", Digest: a, Status: Approved, Present: true}})
	}
	for range 3 {
		got, err := texts.Of(t.Context(), entry(1, "s"))
		if err != nil || len(got) != 1 || got[0].Name != "a" || got[0].Status != Approved || string(got[0].Text) != `{"a":1}` || got[0].ReviewedBy != "bob" || !got[0].Present {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	store.of = map[Digest]Text{a: {json.RawMessage(`{"a":1}`), "bob"}, b: {json.RawMessage(strings.Repeat("x", maxTexts/4)), ""}}
	if got, err := texts.Of(t.Context(), entry(2, "s")); err != nil || len(got) != 2 || store.reads != 2 {
		t.Errorf("%d definitions, %v, %d reads", len(got), err, store.reads)
	}
	for id := range strings.FieldsSeq("t u v w x y z") {
		if _, err := texts.Of(t.Context(), entry(2, id)); err != nil {
			t.Fatal(err)
		}
	}
	if texts.size > maxTexts || texts.kept.Len() > 4 {
		t.Errorf("%d bytes of %d servers are kept", texts.size, texts.kept.Len())
	}
	store.err = errors.New("away")
	if _, err := texts.Of(t.Context(), entry(3, "z")); err == nil {
		t.Error("no error without the store")
	}
}
