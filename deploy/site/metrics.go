package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// metricName matches the name of a metric of the services.
var metricName = regexp.MustCompile(`^(switchyard|notify|gen_ai)\.[a-z_.]+$`)

// Names that are put together: the histogram of a chain of the edge, whose roles name it, and the gauges of an outbox.
const (
	chainField   = "Duration"
	chainMeaning = "Duration of requests by route and HTTP status."
	outboxFunc   = "Measure"
)

var outbox = map[string]string{
	".events.waiting": "Events that webhook egress has not taken yet.",
	".events.oldest":  "Age of the oldest event that webhook egress has not taken yet.",
}

// metrics returns the table of the metrics that the services' code makes.
func metrics(root string) (string, error) {
	found := make(map[string]string)
	err := filepath.WalkDir(filepath.Join(root, "services"), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || entry.Name() == "testdata" {
			return err
		}
		return instruments(name, found)
	})
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("# Metrics\n\nWhat the services record, by OpenTelemetry's names. At `/metrics` a name has underscores in place of dots, then its unit\n" +
		"(`_seconds`, `_bytes`), and `_total` if it counts. Dashboards and alerts: [watching it](../deploy/README.md#watching-it).\n\n" +
		"| Metric | Meaning |\n| --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(found)) {
		row(&out, coded(name), plainText(found[name]))
	}
	return out.String(), nil
}

// instruments adds the metrics that the package in a folder makes.
func instruments(dir string, found map[string]string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	var files []*ast.File
	constants := make(map[string]string)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		files = append(files, file)
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, value := range spec.Values {
					constants[spec.Names[i].Name] = literal(value, nil)
				}
			}
			return true
		})
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				instrument(n, constants, found)
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == chainField && metricName.MatchString(literal(n.Value, constants)) {
					found[literal(n.Value, constants)] = chainMeaning
				}
			}
			return true
		})
	}
	return nil
}

// instrument adds the metric that a call makes: its arguments have the name, and then the meaning as a text or an option.
func instrument(call *ast.CallExpr, constants, found map[string]string) {
	for i, argument := range call.Args {
		name := literal(argument, constants)
		if selector, ok := call.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == outboxFunc && i == 1 && name != "" {
			for suffix, meaning := range outbox {
				found[name+suffix] = meaning
			}
		}
		if !metricName.MatchString(name) {
			continue
		}
		for _, after := range call.Args[i+1:] {
			meaning := literal(after, constants)
			if option, ok := after.(*ast.CallExpr); ok && len(option.Args) == 1 {
				meaning = literal(option.Args[0], constants)
			}
			if strings.Contains(meaning, " ") {
				found[name] = meaning
				return
			}
		}
	}
}

// literal returns the text of a string or of a constant of the package; empty for another expression.
func literal(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.Ident:
		return constants[e.Name]
	case *ast.BinaryExpr:
		if left, right := literal(e.X, constants), literal(e.Y, constants); e.Op == token.ADD && left != "" && right != "" {
			return left + right
		}
	}
	return ""
}
