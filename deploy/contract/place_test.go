package contract_test

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// placeTable is the document that lists every bounded resource that customers can hold.
const placeTable = "../../services/platform/docs/places.md"

// placeMakers lists the functions that make pools (of connections, too), semaphores and caches, by the path of their package.
var placeMakers = map[string][]string{
	"switchyard.dev/services/platform/fairshare":   {"New", "NewPlaces", "NewProcessors"},
	"switchyard.dev/services/platform/bodymemory":  {"New"},
	"github.com/jackc/pgx/v5/pgxpool":              {"New", "NewWithConfig"},
	"github.com/redis/go-redis/v9":                 {"NewClient", "NewClusterClient", "NewFailoverClient", "NewUniversalClient"},
	"golang.org/x/sync/semaphore":                  {"NewWeighted"},
	"golang.org/x/time/rate":                       {"NewLimiter"},
	"github.com/failsafe-go/failsafe-go/bulkhead":  {"New"},
	"github.com/hashicorp/golang-lru/v2":           {"New", "NewWithEvict", "New2Q"},
	"github.com/hashicorp/golang-lru/v2/simplelru": {"NewLRU"},
	"github.com/hashicorp/golang-lru/v2/expirable": {"NewLRU"},
}

// unshared matches the accepted reasons why a place has no share.
var unshared = regexp.MustCompile(`^(not held by customers: .+|a cache: none|one request's own)$`)

// TestPlacesAreListed fails if the table doesn't list a service's semaphore, pool, cache or group of workers, if a row
// has none in the source, or if a row's test doesn't exist.
func TestPlacesAreListed(t *testing.T) {
	text, err := os.ReadFile(placeTable)
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]bool)
	existing := tests(t)
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\|$").FindAllStringSubmatch(string(text), -1) {
		rows[row[1]+" "+row[2]] = true
		named := namedTest.FindStringSubmatch(row[4])
		switch {
		case named != nil && len(existing[named[1]]) == 0:
			t.Errorf("%s %s: there is no test %s", row[1], row[2], named[1])
		case named == nil && !unshared.MatchString(row[3]):
			t.Errorf("%s %s: name the test of its share, or say why it needs none", row[1], row[2])
		}
	}
	var found []string
	for _, file := range serviceFiles(t) {
		for _, place := range placesIn(t, file) {
			found = append(found, strings.TrimPrefix(filepath.ToSlash(file), "../../services/")+" "+place)
		}
	}
	slices.Sort(found)
	for _, place := range slices.Compact(found) {
		if !rows[place] {
			t.Errorf("%s: missing in %s, with its bound, an organization's share and the share's test", place, placeTable)
		}
		delete(rows, place)
	}
	for row := range rows {
		t.Errorf("%s: in %s, but not in the source", row, placeTable)
	}
}

func serviceFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir("../../services", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") &&
			!strings.Contains(path, "test/") && !strings.Contains(path, "/testkit/") && !strings.Contains(path, "/dbsql/") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// majorVersion matches the end of a module's path.
var majorVersion = regexp.MustCompile(`/v[0-9]+$`)

// placesIn returns the expressions in a file that make a place.
func placesIn(t *testing.T, path string) (places []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	makers := make(map[string][]string) // by the package's name in the file
	for _, imported := range file.Imports {
		pkg := strings.Trim(imported.Path.Value, `"`)
		name := filepath.Base(majorVersion.ReplaceAllString(pkg, ""))
		name = strings.TrimPrefix(strings.TrimPrefix(name, "golang-"), "go-")
		if imported.Name != nil {
			name = imported.Name.Name
		}
		if of, ok := placeMakers[pkg]; ok {
			makers[name] = of
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if makesPlace(n, makers) {
				places = append(places, shown(set, n))
			}
		case *ast.RangeStmt: // for range workers { group.Go(…) }
			if n.Key == nil && starts(n.Body) {
				places = append(places, "for range "+shown(set, n.X))
			}
		}
		return true
	})
	return places
}

// makesPlace reports whether a call makes a semaphore, a pool or a cache. A channel of capacity 1 doesn't count: it is
// a signal or a lock.
func makesPlace(call *ast.CallExpr, makers map[string][]string) bool {
	function := call.Fun
	if generic, ok := function.(*ast.IndexExpr); ok {
		function = generic.X
	}
	if generic, ok := function.(*ast.IndexListExpr); ok {
		function = generic.X
	}
	switch function := function.(type) {
	case *ast.Ident:
		if function.Name != "make" || len(call.Args) != 2 {
			return false
		}
		channel, ok := call.Args[0].(*ast.ChanType)
		if !ok {
			return false
		}
		element, ok := channel.Value.(*ast.StructType)
		size, literal := call.Args[1].(*ast.BasicLit)
		return ok && element.Fields.NumFields() == 0 && (!literal || size.Value != "1")
	case *ast.SelectorExpr:
		if function.Sel.Name == "SetLimit" && len(call.Args) == 1 {
			return true
		}
		pkg, ok := function.X.(*ast.Ident)
		return ok && slices.Contains(makers[pkg.Name], function.Sel.Name)
	}
	return false
}

// starts reports whether a block starts goroutines.
func starts(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			found = found || ok && called.Sel.Name == "Go"
		}
		return !found
	})
	return found
}

// shown returns the source of an expression on one line, without type arguments and function bodies.
func shown(set *token.FileSet, n ast.Expr) string {
	if call, ok := n.(*ast.CallExpr); ok {
		short := *call
		switch generic := call.Fun.(type) { // Markdown would read type arguments as a link.
		case *ast.IndexExpr:
			short.Fun = generic.X
		case *ast.IndexListExpr:
			short.Fun = generic.X
		}
		short.Args = slices.Clone(call.Args)
		for i, arg := range short.Args {
			if _, ok := arg.(*ast.FuncLit); ok {
				short.Args[i] = ast.NewIdent("func")
			}
		}
		n = &short
	}
	var text strings.Builder
	_ = printer.Fprint(&text, set, n)
	return strings.Join(strings.Fields(text.String()), " ")
}
