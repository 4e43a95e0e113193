package contract_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	edgeHeaders = "../../services/edge/internal/proxy/header.go"
	edgeCORS    = "../../services/edge/internal/api/cors.go"
)

// unsent lists request headers that services read and the edge doesn't pass on, or not by this expression, with the
// reason.
var unsent = map[string]string{
	"Authorization":             "the edge sends its own token",
	"Traceparent":               "the edge sets it",
	"Tracestate":                "the edge sets it",
	"X-Organization-Id":         "the edge sets it: it is the key's",
	"X-Key-Id":                  "the edge sets it",
	"X-Key-Terms":               "the edge sets it",
	"X-User-Verified":           "the edge sets it",
	"X-Owner-Session":           "the edge sets it",
	"X-Switchyard-Dialect":      "the edge sets it, by the route",
	"X-Switchyard-Deployment":   "the gateway sets it, by the path",
	"X-Switchyard-Early-Stream": "it costs the status, by which the edge counts calls",
	"Mcp-Method":                "by setMirrored",
	"Mcp-Name":                  "by setMirrored",
	"Origin":                    "the edge checks it",
	"X-Stainless-Lang":          "tells dialects apart, as X-Switchyard-Dialect does behind the edge",
	"X-Goog-Api-Key":            "tells dialects apart, as X-Switchyard-Dialect does behind the edge",
	"X-Goog-Api-Client":         "tells dialects apart, as X-Switchyard-Dialect does behind the edge",
	"X-Forwarded-For":           "of calls that don't come by the edge",
	"d.KeyHeader":               "a dialect's header for the key, which the edge reads itself",
	"name":                      "of a list",
	"pair.name":                 "of a list",
	"p.Header":                  "by setMirrored",
}

// Each request header that a service reads reaches it from customers or is listed in unsent.
func TestRequestHeadersReachServices(t *testing.T) {
	passed := listOf(t, edgeHeaders, "passed")
	read := headersRead(t, "gateway/internal/api", "notify/internal/api", "webhook-egress/internal/api", "platform/rpc", "platform/service")
	for _, name := range listOf(t, "../../services/platform/rpc/mux.go", "forwarded") {
		read[name] = true
	}
	if len(read) < 20 {
		t.Fatalf("only %d headers found: %v", len(read), read)
	}
	for name := range read {
		if !slices.Contains(passed, name) && unsent[name] == "" {
			t.Errorf("%s: neither in passed of the edge nor in unsent", name)
		}
	}
	for name := range unsent {
		if !read[name] {
			t.Errorf("unsent: no service reads %s", name)
		}
		if slices.Contains(passed, name) {
			t.Errorf("unsent: the edge passes %s on", name)
		}
	}
}

// headersRead returns the names of the request headers and metadata that the Go files of folders read: in canonical form,
// or as the expression if the name is not a known constant.
func headersRead(t *testing.T, folders ...string) map[string]bool {
	t.Helper()
	constants := callerHeaders(t)
	var files []*ast.File
	for _, folder := range append(folders, "gateway/internal/mcp/wire") {
		files = append(files, parsed(t, filepath.Join("../../services", folder))...)
	}
	for _, file := range files {
		collectConstants(file, constants)
	}
	read := make(map[string]bool)
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if name := readHeader(n); name != nil {
				read[textOf(name, constants)] = true
			}
			return true
		})
	}
	return read
}

// callerHeaders returns the headers that package caller names, by constant.
func callerHeaders(t *testing.T) map[string]string {
	t.Helper()
	constants := make(map[string]string)
	file, err := parser.ParseFile(token.NewFileSet(), "../../services/platform/caller/caller.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	collectConstants(file, constants)
	return constants
}

// readHeader returns the name of the header that an expression reads, and nil for other nodes. It knows r.Header.Get(name),
// also with Values, on in.header, header and md, and r.Header[name]. The header of a form's part is no request's.
func readHeader(n ast.Node) ast.Expr {
	of := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.Ident:
			return e.Name == "header" || e.Name == "md"
		case *ast.SelectorExpr:
			from, named := e.X.(*ast.Ident)
			if named && (from.Name == "part" || from.Name == "raw") {
				return false
			}
			return e.Sel.Name == "Header" || e.Sel.Name == "header"
		}
		return false
	}
	switch n := n.(type) {
	case *ast.CallExpr:
		called, ok := n.Fun.(*ast.SelectorExpr)
		if ok && len(n.Args) == 1 && (called.Sel.Name == "Get" || called.Sel.Name == "Values") && of(called.X) {
			return n.Args[0]
		}
	case *ast.IndexExpr:
		if of(n.X) {
			return n.Index
		}
	}
	return nil
}

// conditions lists, for each response header by which a caller may ask for an answer only if it has changed, or for its
// rest, the request headers that ask so (RFC 9110, sections 13 and 14). Both pass the edge or neither does.
var conditions = map[string][]string{
	"Etag":          {"If-None-Match"},
	"Last-Modified": {"If-Modified-Since", "If-Unmodified-Since"},
	"Accept-Ranges": {"Range", "If-Range"},
	"Content-Range": {"Range", "If-Range"},
}

// What an answer offers can be asked for on each face of the edge, and nothing else: with a key, with an end user's token,
// and from the pages of end users, which read and send only what CORS names.
func TestConditionalHeadersArePaired(t *testing.T) {
	returned := listOf(t, edgeHeaders, "returned")
	for face, lists := range map[string]struct{ answer, request []string }{
		"keys":   {returned, listOf(t, edgeHeaders, "passed")},
		"tokens": {returned, listOf(t, edgeHeaders, "passedOfUser")},
		"pages":  {corsList(t, "corsAnswerHeaders"), corsList(t, "corsRequestHeaders")},
	} {
		for offer, requests := range conditions {
			for _, request := range requests {
				if has := slices.Contains(lists.answer, offer); has != slices.Contains(lists.request, request) {
					t.Errorf("%s: %s passes %t, %s %t", face, offer, has, request, !has)
				}
			}
		}
		if slices.Contains(lists.request, "If-Match") {
			t.Errorf("%s: no service reads If-Match", face)
		}
	}
	pages := append(corsList(t, "corsRequestHeaders"), "Accept") // Accept needs no permission.
	for _, name := range listOf(t, edgeHeaders, "passedOfUser") {
		if !slices.Contains(pages, name) {
			t.Errorf("pages may not send %s, which passes with their tokens", name)
		}
	}
}

// corsList returns the headers of one of the edge's CORS lists in canonical form.
func corsList(t *testing.T, list string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), edgeCORS, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	constants := make(map[string]string)
	collectConstants(file, constants)
	for name := range strings.SplitSeq(constants[list], ", ") {
		names = append(names, http.CanonicalHeaderKey(name))
	}
	return names
}
