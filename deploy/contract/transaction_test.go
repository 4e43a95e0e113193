package contract_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestTransactionsUseOneConnection fails if the function of a transaction uses the store's pool: it would wait for a
// second connection while it holds the first one, and so could all calls that hold one. Such a function has the
// transaction, or the queries on it, as a parameter.
func TestTransactionsUseOneConnection(t *testing.T) {
	transactions := 0
	for _, path := range serviceFiles(t) {
		if filepath.Base(filepath.Dir(path)) != "postgres" {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			function, ok := n.(*ast.FuncLit)
			if !ok || !takesTransaction(set, function.Type) {
				return true
			}
			transactions++
			for _, use := range poolUses(function.Body) {
				t.Errorf("%s: the pool is used in a transaction", set.Position(use.Pos()))
			}
			return true
		})
	}
	if transactions < 50 {
		t.Errorf("%d transactions found, want those of all stores", transactions)
	}
}

// takesTransaction reports whether a function has a transaction or its queries as a parameter.
func takesTransaction(set *token.FileSet, function *ast.FuncType) bool {
	for _, field := range function.Params.List {
		if of := shown(set, field.Type); of == "pgx.Tx" || of == "*dbsql.Queries" {
			return true
		}
	}
	return false
}

// poolUses returns where a function uses a store's pool, or its queries outside of transactions (sql).
func poolUses(body *ast.BlockStmt) (uses []ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of, ok := selector.X.(*ast.SelectorExpr); ok && of.Sel.Name == "sql" && selector.Sel.Name != "WithTx" {
			uses = append(uses, n)
		}
		if strings.EqualFold(selector.Sel.Name, "pool") {
			uses = append(uses, n)
		}
		return true
	})
	return uses
}
