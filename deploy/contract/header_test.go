package contract_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unpassed lists response headers of services that the edge doesn't pass on, or not by this expression, with the
// reason.
var unpassed = map[string]string{
	"Connection":                "of the connection between edge and service",
	"Content-Length":            "of the connection: the edge frames the answer itself",
	"Upgrade":                   "of the connection: the edge answers requests without an upgrade itself",
	"X-Request-Id":              "the edge sets the same on every answer",
	"Www-Authenticate":          "of a refusal of the edge's own token",
	"Vary":                      "of the index page, which has no route",
	"d.IDHeader":                "the request id in a dialect's words, which the edge sets itself",
	"name":                      "X-Switchyard- headers, from a list",
	"http.TrailerPrefix + name": "trailers, from the list of X-Switchyard- headers",
}

// Each response header that a service sets reaches customers or is listed in unpassed.
func TestResponseHeadersReachCustomers(t *testing.T) {
	passed := listOf(t, "../../services/edge/internal/proxy/header.go", "returned")
	var set []string
	for _, folder := range []string{"gateway/internal/api", "notify/internal/api", "webhook-egress/internal/api", "platform/rpc", "platform/service"} {
		set = append(set, headersSet(t, filepath.Join("../../services", folder))...)
	}
	if len(set) < 12 {
		t.Fatalf("only %d headers found: %q", len(set), set)
	}
	slices.Sort(set)
	for _, header := range slices.Compact(set) {
		if !slices.Contains(passed, header) && !strings.HasPrefix(header, "X-Switchyard-") && unpassed[header] == "" {
			t.Errorf("%s: neither in returned of the edge nor in unpassed", header)
		}
	}
	for header := range unpassed {
		if !slices.Contains(set, header) {
			t.Errorf("unpassed: no service sets %s", header)
		}
		if slices.Contains(passed, header) {
			t.Errorf("unpassed: the edge passes %s on", header)
		}
	}
}

// headersSet returns the names of the response headers that the Go files of a folder set: in canonical form, or as the
// expression if the name is not a known constant.
func headersSet(t *testing.T, folder string) (names []string) {
	t.Helper()
	// Other packages declare these.
	constants := map[string]string{"HeaderRequest": "X-Request-Id", "HeaderSession": "Mcp-Session-Id"}
	files := parsed(t, folder)
	for _, file := range files {
		collectConstants(file, constants)
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if name := headerOf(n); name != nil {
				names = append(names, textOf(name, constants))
			}
			return true
		})
	}
	return names
}

// parsed returns the Go files of a folder and the folders in it, without tests.
func parsed(t *testing.T, folder string) (files []*ast.File) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		files = append(files, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// collectConstants adds the strings that a file declares outside functions.
func collectConstants(file *ast.File, constants map[string]string) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && len(spec.Names) == len(spec.Values) {
			for i, value := range spec.Values {
				if text, ok := constantText(value); ok {
					constants[spec.Names[i].Name] = text
				}
			}
		}
		_, within := n.(*ast.FuncDecl)
		return !within
	})
}

// constantText returns the value of a string, or of a sum of strings.
func constantText(value ast.Expr) (text string, ok bool) {
	switch value := value.(type) {
	case *ast.BasicLit:
		text, _ = strconv.Unquote(value.Value)
		return text, value.Kind == token.STRING
	case *ast.BinaryExpr:
		left, ok := constantText(value.X)
		right, also := constantText(value.Y)
		return left + right, ok && also
	}
	return "", false
}

// headerOf returns the name of the response header that a call sets, and nil for other nodes. It knows
// rpc.SetHeader(ctx, name, …), w.Header().Set(name, …), also on a variable and with Add, and a callback's set(name, …).
func headerOf(n ast.Node) ast.Expr {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return nil
	}
	if by, ok := call.Fun.(*ast.Ident); ok && by.Name == "set" {
		if name, ok := call.Args[0].(*ast.Ident); ok && strings.HasPrefix(name.Name, "header") {
			return name
		}
		return nil
	}
	called, ok := call.Fun.(*ast.SelectorExpr)
	switch {
	case !ok:
	case called.Sel.Name == "SetHeader" && len(call.Args) == 3:
		return call.Args[1]
	case called.Sel.Name != "Set" && called.Sel.Name != "Add":
	default:
		if of, ok := called.X.(*ast.CallExpr); ok {
			if by, ok := of.Fun.(*ast.SelectorExpr); ok && by.Sel.Name == "Header" && len(of.Args) == 0 {
				return call.Args[0]
			}
		}
		if of, ok := called.X.(*ast.Ident); ok && (of.Name == "header" || of.Name == "h") {
			return call.Args[0]
		}
	}
	return nil
}

// textOf returns the name of a header in canonical form, or the expression if it is not a known constant.
func textOf(name ast.Expr, constants map[string]string) string {
	switch name := name.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(name.Value)
		return http.CanonicalHeaderKey(text)
	case *ast.Ident:
		if text := constants[name.Name]; text != "" {
			return http.CanonicalHeaderKey(text)
		}
	case *ast.SelectorExpr:
		if text := constants[name.Sel.Name]; text != "" {
			return http.CanonicalHeaderKey(text)
		}
	}
	return types.ExprString(name)
}

// listOf returns the strings in a list of a Go file. An element may be a string, one of the file's constants plus a
// string, or a header that package caller names.
func listOf(t *testing.T, path, list string) (texts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	constants := callerHeaders(t)
	collectConstants(file, constants)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != list {
			return true
		}
		for _, element := range spec.Values[0].(*ast.CompositeLit).Elts {
			switch element := element.(type) {
			case *ast.BasicLit:
				text, _ := strconv.Unquote(element.Value)
				texts = append(texts, text)
			case *ast.SelectorExpr:
				texts = append(texts, textOf(element, constants))
			case *ast.BinaryExpr:
				prefix, ok := element.X.(*ast.Ident)
				rest, also := element.Y.(*ast.BasicLit)
				if !ok || !also {
					t.Fatalf("%s: %s is not understood", list, types.ExprString(element))
				}
				text, _ := strconv.Unquote(rest.Value)
				texts = append(texts, constants[prefix.Name]+text)
			}
		}
		return true
	})
	return texts
}
