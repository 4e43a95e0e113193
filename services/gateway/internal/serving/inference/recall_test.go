package inference

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// answers is a response cache in memory.
type answers struct {
	mu   sync.Mutex
	held map[string][]byte
}

func (a *answers) Get(_ context.Context, s cache.Scope, request []byte) ([]byte, cache.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := s.Organization + "|" + s.Credential + "|" + string(request)
	return a.held[name], cache.Key{Answer: name}
}

func (a *answers) Put(_ context.Context, p cache.Key, answer []byte, _ time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[p.Answer] = answer
}

// caching turns the response cache on, for the organizations acme and other.
func caching(b *bench) *bench {
	b.Answers = &answers{held: make(map[string][]byte)}
	b.Fleet().CacheTTL = func(organization string) time.Duration {
		if organization == "uncached" {
			return 0
		}
		return time.Minute
	}
	return b
}

var whole = provider.Answer{
	Text: "hello", FinishReason: provider.FinishToolCalls, Usage: &provider.Usage{Input: 10, CacheRead: 1, Output: 5},
	ToolCalls: []provider.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}, {ID: "2", Name: "g", Arguments: `{"a":1}`, Extra: json.RawMessage(`{"s":1}`)}},
}

// The second of two equal requests costs nothing and calls no provider. Its answer reports the usage of the first, and
// it has its own ledger row.
func TestCacheHit(t *testing.T) {
	b := caching(setup(t, nil, &script{name: "a", answer: whole}))
	first, err := b.Chat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Chat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	if calls, _ := b.scripts["a"].count(); calls != 1 {
		t.Errorf("%d calls, want one", calls)
	}
	want := first.Report
	want.CacheHit, want.Cost = true, 0
	if diff := cmp.Diff(want, second.Report); diff != "" || first.Report.Cost == 0 || first.Report.CacheHit {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{first.Text, first.ToolCalls, first.FinishReason}, []any{second.Text, second.ToolCalls, second.FinishReason}); diff != "" {
		t.Errorf("answer (-first +second):\n%s", diff)
	}
	if second.Route.Attempts != 0 || second.Route.Provider != "a" {
		t.Errorf("route %+v", second.Route)
	}
	row := b.ledger.entries[1]
	checkRecalled(t, b.ledger.entries[0], row)
}

// A whole answer is streamed from the cache, and a streamed one returned whole.
func TestCacheAcrossForms(t *testing.T) {
	call := func(index int, id, arguments string) step {
		name := ""
		if id != "" {
			name = "f" + id
		}
		return step{event: provider.Event{ToolCalls: []provider.ToolCall{{Index: index, ID: id, Name: name, Arguments: arguments}}}}
	}
	steps := []step{
		text("hel"), text("lo"), call(0, "1", `{"a`), call(1, "2", "{"), call(0, "", `":1}`), call(1, "", "}"),
		{event: provider.Event{FinishReason: provider.FinishToolCalls, Usage: &provider.Usage{Input: 3, Output: 4}}},
	}
	b := caching(setup(t, nil, &script{name: "a", answer: whole, steps: steps}))
	stream, err := b.StreamChat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(stream); err != nil {
		t.Fatal(err)
	}
	completion, err := b.Chat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	calls := []provider.ToolCall{{ID: "1", Name: "f1", Arguments: `{"a":1}`}, {Index: 1, ID: "2", Name: "f2", Arguments: "{}"}}
	if diff := cmp.Diff(calls, completion.ToolCalls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if completion.Text != "hello" {
		t.Errorf("text %q, want hello", completion.Text)
	}
	if !completion.Report.CacheHit || completion.Report.Prompt != 3 {
		t.Errorf("cache hit %t, %d tokens of prompt; want a hit and 3", completion.Report.CacheHit, completion.Report.Prompt)
	}

	b = caching(setup(t, nil, &script{name: "a", answer: whole}))
	if _, err := b.Chat(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	replayed, err := b.StreamChat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	defer replayed.Close()
	event, err := replayed.Next()
	if err != nil || event.Text != "hello" {
		t.Errorf("text %q, %v, want hello", event.Text, err)
	}
	if len(event.ToolCalls) != 2 || event.ToolCalls[1].Index != 1 {
		t.Errorf("calls %+v, want two, numbered", event.ToolCalls)
	}
	if _, err := replayed.Next(); !errors.Is(err, io.EOF) || !replayed.Report().CacheHit || replayed.FinishReason() != provider.FinishToolCalls {
		t.Errorf("end %v, report %+v", err, replayed.Report())
	}
	if n := len(b.ledger.entries); n != 2 || !b.ledger.entries[1].CacheHit {
		t.Errorf("%d rows, want one for each answer", n)
	}
}

// Frames of a dialect are replayed as they arrived, only to a stream of that dialect.
func TestCacheFrames(t *testing.T) {
	frame := func(text, native string) step {
		return step{event: provider.Event{Text: text, Native: []byte(native), NativeType: "delta"}}
	}
	last := step{event: provider.Event{FinishReason: provider.FinishStop, Native: []byte("end"), Usage: &provider.Usage{Input: 1, Output: 1}}}
	b := caching(setup(t, nil, &script{name: "a", answer: whole, steps: []step{frame("a", "A"), frame("b", "B"), last}}))
	native := func(body string) *Request {
		r := request()
		r.Chat.Native = &provider.Native{Dialect: "openai", Body: json.RawMessage(body)}
		return r
	}
	frames := func(body string) (all string, hit bool) {
		s, err := b.StreamChat(t.Context(), native(body))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for {
			event, err := s.Next()
			if err != nil {
				return all, s.Report().CacheHit
			}
			if event.Shown() {
				all += string(event.Native) + " "
			}
		}
	}
	if got, hit := frames(`{"model":"x","stream":true,"top_k":1}`); got != "A B end " || hit {
		t.Fatalf("%q, hit %v", got, hit)
	}
	if got, hit := frames(`{"top_k":1,"stream":true,"model":"y"}`); got != "A B end " || !hit {
		t.Errorf("the same in another order: %q, hit %v", got, hit)
	}
	if _, hit := frames(`{"top_k":2,"stream":true}`); hit {
		t.Error("a field that only the dialect has does not count")
	}
	if c, err := b.Chat(t.Context(), native(`{"top_k":1}`)); err != nil || c.Report.CacheHit {
		t.Errorf("%v: frames were given as a whole answer", err)
	}
}

// A request that differs, or is of another payer, is not answered from the cache.
func TestCacheMisses(t *testing.T) {
	cases := map[string]func(r *Request){
		"another organization": func(r *Request) { r.Organization = "other" },
		"without the cache":    func(r *Request) { r.Organization = "uncached" },
		"bypass":               func(r *Request) { r.BypassCache = true },
		"an approval":          func(r *Request) { r.ApprovalRef = "appr_1" },
		"other words":          func(r *Request) { r.Chat.Messages[0].Content[0].Text += " " },
		"a temperature":        func(r *Request) { r.Chat.Temperature = new(0.5) },
		"a tool":               func(r *Request) { r.Chat.Tools = []provider.Tool{{Name: "f"}} },
		"a locale":             func(r *Request) { r.Locale = "de" },
		"an image elsewhere": func(r *Request) {
			r.Chat.Messages[0].Content = append(r.Chat.Messages[0].Content, provider.Part{ImageURL: "https://images.example/a.png"})
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			b := caching(setup(t, nil, &script{name: "a", answer: whole}))
			b.Images = anyImage{}
			if _, err := b.Chat(t.Context(), request()); err != nil {
				t.Fatal(err)
			}
			var hits []bool
			for range 2 {
				r := request()
				change(r)
				c, err := b.Chat(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				hits = append(hits, c.Report.CacheHit)
			}
			// The second request may be answered from the cache if the first answer could be stored.
			kept := !slices.Contains([]string{"without the cache", "bypass", "an approval", "an image elsewhere"}, name)
			if hits[0] || hits[1] != kept {
				t.Errorf("answered from the cache: %v, want the first not, the second %v", hits, kept)
			}
		})
	}
}

// anyImage accepts every URL.
type anyImage struct{}

func (anyImage) CheckURL(string) error                   { return nil }
func (anyImage) CheckHost(context.Context, string) error { return nil }
func (anyImage) Fetch(context.Context, string) (imagefetch.Image, error) {
	return imagefetch.Image{}, nil
}

func (anyImage) FetchDocument(context.Context, string) (imagefetch.Document, error) {
	return imagefetch.Document{}, nil
}

// byok returns an organization's own key, which changes.
type byok struct{ fingerprint string }

func (k *byok) Resolve(context.Context, keyring.Scope, string) ([]provider.Credential, error) {
	source := "byok"
	if k.fingerprint == "fleet" {
		source = "fleet"
	}
	return []provider.Credential{{Source: source, Fingerprint: k.fingerprint}}, nil
}

func TestCacheIsOfOneCredential(t *testing.T) {
	b := caching(setup(t, nil, &script{name: "a", answer: whole}))
	keys := &byok{}
	b.Fleet().Keys = keys
	hits := func(fingerprint string) bool {
		keys.fingerprint = fingerprint
		c, err := b.Chat(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		return c.Report.CacheHit
	}
	for _, step := range []struct {
		fingerprint string
		want        bool
	}{{"fleet", false}, {"aa", false}, {"bb", false}, {"aa", true}, {"fleet", true}, {"", false}, {"", false}} {
		if got := hits(step.fingerprint); got != step.want {
			t.Errorf("with %q: hit %v, want %v", step.fingerprint, got, step.want)
		}
	}
}

// Only a complete answer of the first candidate is cached.
func TestCacheKeepsWholeAnswersOnly(t *testing.T) {
	filtered := whole
	filtered.FinishReason = provider.FinishContentFilter
	cases := map[string][]*script{
		"a substitute":    {{name: "a", steps: failing(apierr.ClassServerError, 500)}, {name: "b", answer: whole}},
		"a filtered text": {{name: "a", answer: filtered}},
	}
	for name, scripts := range cases {
		t.Run(name, func(t *testing.T) {
			b := caching(setup(t, nil, scripts...))
			for range 2 {
				if c, err := b.Chat(t.Context(), request()); err != nil || c.Report.CacheHit {
					t.Errorf("%v, or answered from the cache", err)
				}
			}
		})
	}
	b := caching(setup(t, nil, &script{name: "a", steps: []step{text("half"), {err: errors.New("reset")}}}))
	for range 2 {
		s, err := b.StreamChat(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(s); err == nil || s.Report().CacheHit {
			t.Error("half a stream was kept")
		}
	}
	b = caching(setup(t, nil, &script{name: "a", steps: []step{text(strings.Repeat("x", cache.MaxAnswer)), text("y"), end(nil)}}))
	for range 2 {
		s, err := b.StreamChat(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(s); err != nil || s.Report().CacheHit {
			t.Error("more than the cache takes was kept")
		}
	}
}
