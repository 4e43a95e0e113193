package growth

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Face is an HTTP handler and the requests to make to each of its routes.
type Face struct {
	Handler http.Handler
	// Header of every request, including the caller's authentication.
	Header http.Header
	// Methods are all routes of the handler, as "POST /v1/things/{id}", each with the full gRPC method whose request
	// message it reads; empty if there is none.
	Methods map[string]string
	// Bodies are valid bodies, one for each route whose verb has one.
	Bodies map[string]string
	// Formats are the routes that don't read their method's message, but a format of their own. Hostile values take the
	// place of the members of their body in Bodies, and not of the message's fields.
	Formats []string
	// Streams are routes whose response doesn't end. They are called with a cancelled context.
	Streams []string
}

// hasBody reports whether a route's request is in the body.
func hasBody(route string) bool {
	verb, _, _ := strings.Cut(route, " ")
	return verb == http.MethodPost || verb == http.MethodPut || verb == http.MethodPatch
}

// Linear calls every route with inputs of all sizes: bodies, query parameters, path segments and headers. A route that
// needs a body and has none in Bodies fails the test, and so does a body without a route.
func (f Face) Linear(t *testing.T) {
	t.Helper()
	for route := range f.Bodies {
		if _, ok := f.Methods[route]; !ok {
			t.Errorf("%s is in Bodies, but is not a route", route)
		}
	}
	for _, route := range f.Formats {
		if _, ok := f.Bodies[route]; !ok {
			t.Errorf("%s is in Formats, but not in Bodies", route)
		}
	}
	for _, route := range slices.Sorted(maps.Keys(f.Methods)) {
		base, ok := f.Bodies[route]
		if !ok && hasBody(route) {
			t.Errorf("%s is not in Bodies: add a valid body", route)
			continue
		}
		message, err := inputOf(f.Methods[route])
		if err != nil {
			t.Errorf("%s: %v", route, err)
			continue
		}
		t.Run(route, func(t *testing.T) { Linear(t, f.rows(route, base, message)...) })
	}
}

// inputOf returns the request message of a method; nil for an empty name.
func inputOf(method string) (protoreflect.MessageDescriptor, error) {
	if method == "" {
		return nil, nil
	}
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil, fmt.Errorf("method %s: %w", method, err)
	}
	if described, ok := found.(protoreflect.MethodDescriptor); ok {
		return described.Input(), nil
	}
	return nil, fmt.Errorf("%s is not a method", method)
}

func (f Face) rows(route, base string, message protoreflect.MessageDescriptor) (rows []Row) {
	_, path, _ := strings.Cut(route, " ")
	if hasBody(route) {
		bodies := JSON
		switch {
		case slices.Contains(f.Formats, route):
			bodies = BodiesLike(base)
		case message != nil:
			bodies = Bodies(message, base)
		}
		rows = Each(halved(bodies), func(body []byte) { f.ask(route, f.fill(path, "x"), body, "") })
	} else if message != nil {
		for i := range message.Fields().Len() {
			name := message.Fields().Get(i).TextName()
			rows = append(rows, Each(UpTo(mostURL, []Input{
				Repeat("parameter "+name, "?"+name+"=", "a", ""), Repeat("parameter "+name+" many times", "?"+name+"=a", "&"+name+"=a", ""), Repeat("escaped parameter "+name, "?"+name+"=", "%41", ""),
			}), func(query []byte) { f.ask(route, f.fill(path, "x")+string(query), nil, "") })...)
		}
	}
	rows = append(rows, Each(UpTo(mostURL, []Input{
		Number("unknown parameters", "?a=b", "&k#=v", ""), Repeat("empty parameters", "?", "&", ""), Repeat("escapes", "?a=", "%25", ""),
	}), func(query []byte) { f.ask(route, f.fill(path, "x")+string(query), []byte(base), "") })...)
	if strings.Contains(path, "{") {
		for _, segment := range []string{"a", "%2F", "%41", ".", "-", ";a"} {
			rows = append(rows, EachText(UpTo(mostURL, []Input{Repeat("segment of "+segment, "", segment, "")}), func(text string) {
				f.ask(route, f.fill(path, text), []byte(base), "")
			})...)
		}
	}
	return append(rows, EachText(UpTo(mostURL, []Input{Repeat("headers", "", "a", ""), Repeat("headers of commas", "", ",", ""), Repeat("headers of spaces", "", " a", "")}), func(text string) {
		f.ask(route, f.fill(path, "x"), []byte(base), text)
	})...)
}

// halved returns the inputs with half the size: there are thousands of them, and each parser has its own tests up to
// the full size.
func halved(inputs []Input) []Input {
	inputs = slices.Clone(inputs)
	for i := range inputs {
		inputs[i].Most = cmp.Or(inputs[i].Most, MostBytes) / 2
	}
	return inputs
}

// mostURL is the approximate maximum size of a URL and of headers, in bytes; servers accept no more.
const mostURL = 16 << 10

// fill replaces every parameter of a path by a value.
func (f Face) fill(path, value string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, "{") {
			segments[i] = value
		}
	}
	return strings.Join(segments, "/")
}

// own are the headers that callers may set.
var own = []string{"X-Request-Id", "X-Owner-Id", "X-User-Id", "X-Run-Id", "Idempotency-Key", "If-None-Match", "Traceparent", "Tracestate", "Accept", "Anthropic-Beta"}

// ask makes one request, with value in all headers that callers may set.
func (f Face) ask(route, target string, body []byte, value string) {
	verb, _, _ := strings.Cut(route, " ")
	at, err := url.ParseRequestURI(target)
	if err != nil {
		return // net/http refuses such a request before any handler.
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if slices.Contains(f.Streams, route) {
		cancel()
	}
	r := httptest.NewRequestWithContext(ctx, verb, "/", bytes.NewReader(body))
	r.URL, r.RequestURI, r.Header = at, target, f.Header.Clone()
	if value != "" {
		for _, name := range own {
			r.Header.Set(name, value)
		}
	}
	f.Handler.ServeHTTP(httptest.NewRecorder(), r)
}
