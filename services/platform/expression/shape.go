package expression

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
)

// The errors of expressions whose types the library's checker would take too long to infer. The type of {a: a} is twice as
// large as the type of a, so nested maps with computed keys take exponential time. Nested lists take cubic time.
var (
	errKeys = &Error{"the keys of a map must be constants"}
	errMade = &Error{fmt.Sprintf("must not hold more than %d lists, maps and loops", maxMade)}
)

// checkTypes refuses an expression whose types could become large.
func checkTypes(parsed *cel.Ast) error {
	made, computed := 0, false
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		kind := e.Kind()
		for _, entry := range e.AsMap().Entries() { // none in other kinds
			computed = computed || entry.AsMapEntry().Key().Kind() != ast.LiteralKind
		}
		if kind == ast.MapKind || kind == ast.StructKind || kind == ast.ComprehensionKind ||
			kind == ast.ListKind && !isConstant(e.AsList().Elements()) {
			made++
		}
	}))
	switch {
	case computed:
		return errKeys
	case made > maxMade:
		return errMade
	}
	return nil
}

func isConstant(elements []ast.Expr) bool {
	for _, element := range elements {
		if element.Kind() != ast.LiteralKind {
			return false
		}
	}
	return true
}
