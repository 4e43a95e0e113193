package postgres

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// queryName is the line that names a query for sqlc.
var queryName = regexp.MustCompile(`(?m)^-- name: (\w+) (:\w+)$`)

// countingQueries returns the queries whose command tag is read, by name.
func countingQueries(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("queries/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("queries: %d files, err %v", len(files), err)
	}
	found := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range queryName.FindAllStringSubmatch(string(text), -1) {
			if command := match[2]; command == ":execrows" || command == ":execresult" {
				found[match[1]] = match[0]
			}
		}
	}
	if len(found) == 0 {
		t.Fatal("no :execrows query found: the test proves nothing")
	}
	return found
}

// The pipeline refuses every query that counts rows and queues the others.
func TestPipelineRefusesQueriesThatCountRows(t *testing.T) {
	for name, line := range countingQueries(t) {
		p := &pipeline{batch: &pgx.Batch{}}
		_, err := p.Exec(t.Context(), line+"\nDELETE FROM flow\n")
		if err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: err = %v, want one that begins with the name", name, err)
		}
		if n := p.batch.Len(); n != 0 {
			t.Errorf("%s: %d statements are queued", name, n)
		}
	}
	p := &pipeline{batch: &pgx.Batch{}}
	if _, err := p.Exec(t.Context(), "-- name: EndLeases :exec\nDELETE FROM flow\n"); err != nil || p.batch.Len() != 1 {
		t.Errorf(":exec: err = %v, %d statements are queued", err, p.batch.Len())
	}
}

// No function that a pipelined transaction can reach calls a query that counts rows.
func TestPipelinedTransactionsCountNoRows(t *testing.T) {
	counting := countingQueries(t)
	bodies, roots := functionsOf(t)
	if len(roots) == 0 {
		t.Fatal("no pipelined transaction found: the test proves nothing")
	}
	for _, root := range roots {
		for _, called := range reachable(bodies, root) {
			if line, ok := counting[called]; ok {
				t.Errorf("a pipelined transaction can reach %q", line)
			}
		}
	}
}

// functionsOf returns the names that each function of the package calls, and those that each function given to
// transact calls. Methods of different types with one name count as one.
func functionsOf(t *testing.T) (calls map[string][]string, roots [][]string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	calls = make(map[string][]string)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			calls[f.Name.Name] = append(calls[f.Name.Name], callsIn(f.Body)...)
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && calledName(call) == "transact" {
					roots = append(roots, callsIn(call.Args[len(call.Args)-1]))
				}
				return true
			})
		}
	}
	return calls, roots
}

// callsIn returns every name in a node: what it calls, and more.
func callsIn(node ast.Node) (names []string) {
	ast.Inspect(node, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			names = append(names, id.Name)
		}
		return true
	})
	return names
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// reachable returns the names that can be reached from some.
func reachable(calls map[string][]string, from []string) []string {
	seen := make(map[string]bool)
	next := slices.Clone(from)
	for len(next) > 0 {
		name := next[len(next)-1]
		next = next[:len(next)-1]
		if !seen[name] {
			seen[name] = true
			next = append(next, calls[name]...)
		}
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	return names
}
