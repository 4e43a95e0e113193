// Package recipes holds pages of curl commands, one for each service, and reads them for the tests that run them and
// look for missing routes.
package recipes

import (
	"embed"
	"io/fs"
	"regexp"
	"strings"
)

//go:embed edge.md gateway.md notify.md webhook-egress.md
var pages embed.FS

// Script returns the shell code of a service's page, in its order.
func Script(service string) (string, error) {
	page, err := fs.ReadFile(pages, service+".md")
	if err != nil {
		return "", err
	}
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllSubmatch(page, -1) {
		script.Write(block[1])
	}
	return script.String(), nil
}

// Call is a request that a script makes. Its path may hold variables of the shell.
type Call struct{ Verb, Path string }

var (
	remark = regexp.MustCompile(`(?m)(?:^|\s)#.*$`)
	// A line that ends in a backslash continues, and so does one within quotes.
	goesOn = regexp.MustCompile(`\\\n\s*`)
	quoted = regexp.MustCompile(`(?s)'[^']*'`)
	target = regexp.MustCompile(`"\$[A-Z_]+_URL(/[^"?]*)`)
	verb   = regexp.MustCompile(`-X ([A-Z]+)`)
	body   = regexp.MustCompile(` -d `)
)

// Calls lists the requests of a script.
func Calls(script string) (calls []Call) {
	script = remark.ReplaceAllString(script, "")
	script = quoted.ReplaceAllString(goesOn.ReplaceAllString(script, " "), "''")
	for line := range strings.Lines(script) {
		path := target.FindStringSubmatch(line)
		if path == nil {
			continue
		}
		call := Call{"GET", path[1]}
		switch method := verb.FindStringSubmatch(line); {
		case method != nil:
			call.Verb = method[1]
		case body.MatchString(line):
			call.Verb = "POST"
		}
		calls = append(calls, call)
	}
	return calls
}
