package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// offerServer is a server of the SDK that offers everything, in small pages.
func offerServer(t *testing.T) *mcp.Server {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "offers", Version: "1"}, &mcp.ServerOptions{
		PageSize: 2,
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "!"}}}, nil
		},
	})
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
	})
	for i := range 3 {
		s.AddPrompt(&mcp.Prompt{Name: fmt.Sprint("p", i)}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: r.Params.Arguments["of"]}}}}, nil
		})
		s.AddResource(&mcp.Resource{URI: fmt.Sprintf("note://%d/e", i), Name: "n"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "text"}}}, nil
		})
	}
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "file:///{path}", Name: "t"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "file"}}}, nil
	})
	return s
}

// The official server answers in both eras.
func TestOfficialServersOffer(t *testing.T) {
	for name, stateless := range map[string]bool{"modern": true, "legacy": false} {
		t.Run(name, func(t *testing.T) {
			offers := offerServer(t)
			server, c := serve(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return offers }, &mcp.StreamableHTTPOptions{Stateless: stateless}), nil)
			for of, want := range map[upstream.Offer][]string{
				upstream.Prompts:   {"p0", "p1", "p2"},
				upstream.Resources: {"note://0/e", "note://1/e", "note://2/e"},
				upstream.Templates: {"file:///{path}"},
			} {
				items, err := c.Offered(t.Context(), server, "acme", of)
				var keys []string
				for _, item := range items {
					keys = append(keys, item.Key)
				}
				if err != nil || !slices.Equal(keys, want) {
					t.Errorf("%s: %v %v", of, keys, err)
				}
			}
			for _, c2 := range []struct {
				query upstream.Query
				want  string
			}{
				{upstream.Query{Method: wire.MethodReadResource, Name: "note://1/e", Params: json.RawMessage(`{"uri":"note://1/e"}`)}, `"text":"text"`},
				{upstream.Query{Method: wire.MethodReadResource, Name: "file:///a", Params: json.RawMessage(`{"uri":"file:///a"}`)}, `"text":"file"`},
				{upstream.Query{Method: wire.MethodGetPrompt, Name: "p1", Params: json.RawMessage(`{"name":"p1","arguments":{"of":"all"}}`)}, `"text":"all"`},
				{upstream.Query{Method: wire.MethodComplete, Params: json.RawMessage(`{"ref":{"type":"ref/prompt","name":"p1"},"argument":{"name":"of","value":"a"}}`)}, `"a!"`},
			} {
				c2.query.Organization = "acme"
				got, err := c.Query(t.Context(), server, &c2.query)
				if err != nil || got.Kind != upstream.KindComplete || !strings.Contains(string(got.Text), c2.want) {
					t.Errorf("%s: %s %v", c2.query.Method, got.Text, err)
				}
			}
			_, err := c.Query(t.Context(), server, &upstream.Query{Method: wire.MethodGetPrompt, Name: "none", Params: json.RawMessage(`{"name":"none"}`)})
			if _, ok := errors.AsType[*wire.Error](err); !ok {
				t.Errorf("an unknown prompt: %v", err)
			}
		})
	}
}

// Lists that no correct server sends are refused as a whole.
func TestHostileOffers(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	var many strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&many, `{"uri":"a:%d"},`, i)
	}
	for name, c := range map[string]struct {
		page  func(n int) string
		cause upstream.Cause
	}{
		"a loop of cursors": {func(int) string { return `"resources":[],"nextCursor":"again"` }, upstream.CauseProtocol},
		"pages without end": {func(n int) string { return fmt.Sprintf(`"resources":[],"nextCursor":"%d"`, n) }, upstream.CauseTooLarge},
		"too many":          {func(int) string { return `"resources":[` + strings.TrimSuffix(many.String(), ",") + `]` }, upstream.CauseTooLarge},
		"items without end": {func(n int) string {
			return fmt.Sprintf(`"resources":[{"uri":"a:%d","x":"%s"}],"nextCursor":"%d"`, n, long[:60_000], n)
		}, upstream.CauseTooLarge},
		"a large item":        {func(int) string { return `"resources":[{"uri":"a:b","x":"` + long + `"}]` }, upstream.CauseTooLarge},
		"no list":             {func(int) string { return `"prompts":[]` }, upstream.CauseProtocol},
		"a list of texts":     {func(int) string { return `"resources":["a:b"]` }, upstream.CauseProtocol},
		"an object":           {func(int) string { return `"resources":{}` }, upstream.CauseProtocol},
		"no URI":              {func(int) string { return `"resources":[{"name":"a"}]` }, upstream.CauseProtocol},
		"a URI with a space":  {func(int) string { return `"resources":[{"uri":"a b"}]` }, upstream.CauseProtocol},
		"a long URI":          {func(int) string { return `"resources":[{"uri":"` + long[:2049] + `"}]` }, upstream.CauseProtocol},
		"the same twice":      {func(int) string { return `"resources":[{"uri":"a:b"},{"uri":"a:b"}]` }, upstream.CauseProtocol},
		"a cursor of numbers": {func(int) string { return `"resources":[],"nextCursor":[1]` }, upstream.CauseProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			server, client := serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) {
				n++
				document(w, m, `"result":{"resultType":"complete",`+c.page(n)+`}`)
			}), nil)
			items, err := client.Offered(t.Context(), server, "acme", upstream.Resources)
			if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != c.cause || items != nil {
				t.Errorf("%d items, %v", len(items), err)
			}
			if n > 101 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// Answers of wrong types are refused; those that say that input is required are none that is complete.
func TestHostileQueries(t *testing.T) {
	values := strings.TrimSuffix(strings.Repeat(`"a",`, 101), ",")
	for text, want := range map[string]struct {
		method string
		ok     bool
		kind   upstream.Kind
	}{
		`{"contents":[{"uri":"a:b","x":1.0}]}`: {wire.MethodReadResource, true, upstream.KindComplete},
		`{"contents":[]}`:                      {wire.MethodReadResource, true, upstream.KindComplete},
		`{"contents":[{"text":"a"}]}`:          {wire.MethodReadResource, false, ""},
		`{"contents":["a"]}`:                   {wire.MethodReadResource, false, ""},
		`{"contents":{}}`:                      {wire.MethodReadResource, false, ""},
		`{}`:                                   {wire.MethodReadResource, false, ""},
		`{"messages":[{"role":"user","content":{}}]}`:            {wire.MethodGetPrompt, true, upstream.KindComplete},
		`{"messages":[{"role":1}]}`:                              {wire.MethodGetPrompt, false, ""},
		`{"messages":null}`:                                      {wire.MethodGetPrompt, false, ""},
		`{"resultType":"input_required","requestState":"s"}`:     {wire.MethodGetPrompt, true, upstream.KindInputRequired},
		`{"resultType":"input_required"}`:                        {wire.MethodGetPrompt, false, ""},
		`{"resultType":"task","taskId":"a"}`:                     {wire.MethodGetPrompt, false, ""},
		`{"completion":{"values":["a"],"total":1}}`:              {wire.MethodComplete, true, upstream.KindComplete},
		`{"completion":{"values":[]}}`:                           {wire.MethodComplete, true, upstream.KindComplete},
		`{"completion":{"values":[1]}}`:                          {wire.MethodComplete, false, ""},
		`{"completion":{"values":["a",1]}}`:                      {wire.MethodComplete, false, ""},
		`{"completion":{"values":[` + values + `]}}`:             {wire.MethodComplete, false, ""},
		`{"completion":[]}`:                                      {wire.MethodComplete, false, ""},
		`{"resultType":"input_required","requestState":"state"}`: {wire.MethodComplete, false, ""},
	} {
		server, c := serve(t, stub(func(w http.ResponseWriter, _ *http.Request, m asked) { document(w, m, `"result":`+text) }), nil)
		got, err := c.Query(t.Context(), server, &upstream.Query{Method: want.method, Params: json.RawMessage(`{}`)})
		if (err == nil) != want.ok || got.Kind != want.kind || want.ok && string(got.Text) != text {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
}

// A query of several rounds brings the server what it asked for, its state and what its caller can do.
func TestQueryAgain(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "asks", Version: "1"}, nil)
	s.AddPrompt(&mcp.Prompt{Name: "hello"}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		roots, ok := r.Params.InputResponses["where"].(*mcp.ListRootsResult)
		if !ok || r.Params.RequestState != "theirs" {
			return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"where": &mcp.ListRootsParams{}}, RequestState: "theirs"}, nil
		}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: roots.Roots[0].URI}}}}, nil
	})
	server, c := serve(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}), nil)
	q := &upstream.Query{
		Organization: "org_a", Method: wire.MethodGetPrompt, Name: "hello", Params: json.RawMessage(`{"name":"hello"}`), Capabilities: json.RawMessage(`{"roots":{}}`),
	}
	first, err := c.Query(t.Context(), server, q)
	if err != nil || first.Kind != upstream.KindInputRequired || !strings.Contains(string(first.Text), `"theirs"`) {
		t.Fatalf("%s %v", first.Text, err)
	}
	q.Inputs, q.State = json.RawMessage(`{"where":{"roots":[{"uri":"file:///a"}]}}`), "theirs"
	if last, err := c.Query(t.Context(), server, q); err != nil || last.Kind != upstream.KindComplete || !strings.Contains(string(last.Text), "file:///a") {
		t.Errorf("%s %v", last.Text, err)
	}
}
