package route

import (
	"net/http"
	"net/url"
	"strings"
)

// TargetBelow returns the function that returns where a request of the route goes: the route's target below a service's
// base URL. Values from the path are one segment each; of the query string only the parameters of Query pass.
func (r Route) TargetBelow(base *url.URL) func(req *http.Request) *url.URL {
	target := r.pathBelow(base)
	return func(req *http.Request) *url.URL { return withQuery(target(req), req, r.Query) }
}

func (r Route) pathBelow(base *url.URL) func(req *http.Request) *url.URL {
	fixed := join(base, r.Target)
	if _, rest, ok := r.Rest(); ok {
		_, verb := r.Pattern()
		if verb != "" {
			verb = ":" + verb
		}
		return func(req *http.Request) *url.URL {
			return fixed.JoinPath(url.PathEscape(strings.TrimSuffix(req.PathValue(rest), verb)) + verb)
		}
	}
	names := r.Names()
	if len(names) == 0 {
		return func(*http.Request) *url.URL { return fixed }
	}
	return func(req *http.Request) *url.URL {
		pairs := make([]string, 0, 2*len(names))
		for _, name := range names {
			pairs = append(pairs, "{"+name+"}", url.PathEscape(req.PathValue(name)))
		}
		return join(base, strings.NewReplacer(pairs...).Replace(r.Target))
	}
}

// join returns the URL of a path below a service's base URL.
func join(base *url.URL, path string) *url.URL {
	root := *base
	if root.Path == "" { // JoinPath would leave the path relative, which is invalid in a request
		root.Path = "/"
	}
	return root.JoinPath(path)
}

// withQuery returns a URL with some parameters of a request's query string.
func withQuery(target *url.URL, req *http.Request, names []string) *url.URL {
	if len(names) == 0 || req.URL.RawQuery == "" {
		return target
	}
	asked, passed := req.URL.Query(), url.Values{}
	for _, name := range names {
		if values, ok := asked[name]; ok {
			passed[name] = values
		}
	}
	with := *target
	with.RawQuery = passed.Encode()
	return &with
}
