package route

import (
	"regexp"
	"strings"
)

// mention matches a path of a service in a text: what is before it, which no path has, the method if there is one, and the
// path, which may end in "*" for all that begin with it.
var mention = regexp.MustCompile(`(^|[^A-Za-z0-9/_}.$-])((?:GET|POST|PUT|PATCH|DELETE) )?(/v1/[A-Za-z0-9/_{}:.-]*[A-Za-z0-9_}*])`)

// ForCustomers returns a text about a service in which the service's paths are those of customers. Paths without a route stay
// as they are.
func (t Table) ForCustomers(text string) string {
	return mention.ReplaceAllStringFunc(text, func(found string) string {
		parts := mention.FindStringSubmatch(found)
		return parts[1] + parts[2] + t.pathOf(strings.TrimSpace(parts[2]), parts[3])
	})
}

// pathOf returns the path of the first route with a target and a method, which may be empty; else the target.
func (t Table) pathOf(method, target string) string {
	prefix, open := strings.CutSuffix(target, "*")
	for _, r := range t.Routes {
		if method != "" && r.Method != method {
			continue
		}
		rest, ok := strings.CutPrefix(r.Target, prefix)
		path, same := strings.CutSuffix(r.Path, rest)
		switch {
		case open && ok && same:
			return path + "*"
		case !open && unnamed(r.Target) == unnamed(target):
			return r.Path
		}
	}
	return target
}

// unnamed returns a path without the names of its segments, which texts may call otherwise.
func unnamed(path string) string { return segment.ReplaceAllString(path, "{}") }
