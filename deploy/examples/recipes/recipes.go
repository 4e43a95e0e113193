// Package recipes holds pages of curl commands, one for each service and each task, and reads them for the tests that
// run them and look for missing routes.
package recipes

import (
	"embed"
	"io/fs"
	"regexp"
	"strings"
)

//go:embed approve-a-tool-call.md edge.md gateway.md notify.md webhook-egress.md
var pages embed.FS

// Tasks lists the pages of tasks, which lead through several services.
var Tasks = []string{"approve-a-tool-call"}

// Script returns the shell code of the page of a service or a task, in its order.
func Script(name string) (string, error) {
	page, err := fs.ReadFile(pages, name+".md")
	if err != nil {
		return "", err
	}
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllSubmatch(page, -1) {
		script.Write(block[1])
	}
	return script.String(), nil
}

// Call is a request that a script makes. Its path may hold variables of the shell. Text is the statement around it,
// without remarks, and with what the script's functions stand for in place of their names.
type Call struct{ Verb, Path, Text string }

var (
	remark = regexp.MustCompile(`(?m)(?:^|\s)#.*$`)
	goesOn = regexp.MustCompile(`\\\n\s*`)
	quoted = regexp.MustCompile(`(?s)'[^']*'`)
	target = regexp.MustCompile(`"\$[A-Z_]+_URL(/[^"?]*)`)
	verb   = regexp.MustCompile(`-X ([A-Z]+)`)
	body   = regexp.MustCompile(` -d `)
	// A function puts options before its arguments.
	function = regexp.MustCompile(`(?m)^(\w+)\(\) \{ (.*) "\$@"; \}$`)
)

// Calls lists the requests of a script.
func Calls(script string) (calls []Call) {
	script = remark.ReplaceAllString(script, "")
	options := make(map[string]string)
	for _, found := range function.FindAllStringSubmatch(script, -1) {
		options[found[1]] = found[2]
	}
	for _, statement := range statements(script) {
		flat := quoted.ReplaceAllString(goesOn.ReplaceAllString(statement, " "), "''")
		path := target.FindStringSubmatch(flat)
		if path == nil {
			continue
		}
		call := Call{"GET", path[1], expanded(statement, options)}
		switch method := verb.FindStringSubmatch(flat); {
		case method != nil:
			call.Verb = method[1]
		case body.MatchString(flat):
			call.Verb = "POST"
		}
		calls = append(calls, call)
	}
	return calls
}

// statements splits a script at the ends of lines that neither a backslash nor an open quote continues.
func statements(script string) (all []string) {
	var quote byte
	start := 0
	for i := 0; i < len(script); i++ {
		switch c := script[i]; {
		case c == '\\' && quote != '\'':
			i++
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		case c == '\n' && quote == 0:
			all, start = append(all, script[start:i]), i+1
		}
	}
	return append(all, script[start:])
}

// expanded returns a statement with options in place of the names of functions.
func expanded(statement string, options map[string]string) string {
	for name, head := range options {
		called := regexp.MustCompile(`(^|[\s(])` + name + ` `)
		statement = called.ReplaceAllString(statement, "${1}"+strings.ReplaceAll(head, "$", "$$")+" ")
	}
	return strings.TrimSpace(statement)
}
