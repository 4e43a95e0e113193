// Package route owns the table of customer-keyed routes, a versioned snapshot that is part of the edge's build.
// Package app loads it, package api serves it.
package route

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/strictyaml"
)

//go:embed snapshot_v1.yaml
var snapshot []byte

// Route is one operation that customers may call.
type Route struct {
	Method string `yaml:"method" json:"method"`
	// Path is a plain path, except for segments "{name}", which the target has too, or a last one "{name...}" that matches
	// the rest. A verb may follow that one, as in "{name...}:verb".
	Path     string   `yaml:"path"       json:"path"`
	Products []string `yaml:"products"   json:"products"`
	// Permission and Scope each allow the route. Permission is empty if nothing but the scope does.
	Permission apikey.Permission `yaml:"permission" json:"permission"`
	Scope      apikey.Permission `yaml:"scope"      json:"scope"`
	// ScopedBy says whose records a call reaches: ScopedByOrganization, ScopedByOwner or ScopedByUser.
	ScopedBy string `yaml:"scoped_by" json:"-"`
	// Metric counts the route's successful calls; empty for none.
	Metric string `yaml:"metric" json:"metric"`
	// Summary and Example are for the OpenAPI document; Example is a valid request body, empty for none.
	Summary string `yaml:"summary" json:"-"`
	Example string `yaml:"example" json:"-"`
	// Form reports whether the body is a form of several parts (RFC 7578), also where Example shows one in JSON.
	Form bool `yaml:"form" json:"-"`
	// Upstream is the service behind the route. Target is the path there, with the names of Path; the rest of a path is
	// appended as one segment, with its verb. Timeout bounds the wait for the head of the response.
	Upstream string        `yaml:"upstream" json:"-"`
	Target   string        `yaml:"target"   json:"-"`
	Timeout  time.Duration `yaml:"timeout"  json:"-"`
	// WebSocket reports whether the route takes WebSocket connections, whose messages are the requests. An Upgrade header on
	// another route has no effect.
	WebSocket bool `yaml:"websocket" json:"websocket,omitempty"`
	// EventStream reports whether the answer is server-sent events; for the OpenAPI document.
	EventStream bool `yaml:"event_stream" json:"-"`
	// Query are the parameters of the query string that are passed on; all others are dropped. None names an organization:
	// that is the key's.
	Query []string `yaml:"query" json:"-"`
}

// Values of Route.ScopedBy.
const (
	// ScopedByOrganization means every record of the organization, whichever owner or user a call names.
	ScopedByOrganization = "organization"
	// ScopedByOwner means the records of the owner that a call names, if it names one. The service keeps owners apart,
	// and refuses them the organization's records.
	ScopedByOwner = "owner"
	// ScopedByUser means the records of a call's user.
	ScopedByUser = "user"
)

// Table is a version of all routes. As JSON it is the catalog.
type Table struct {
	Version string  `yaml:"version" json:"version"`
	Routes  []Route `yaml:"routes"  json:"routes"`
	// Dialects maps path prefixes to names of other APIs, whose SDKs call below them: responses and errors there have
	// that API's format.
	Dialects map[string]string `yaml:"dialects" json:"-"`
	// Plain are prefixes below which the service's errors are a text alone; the edge uses the same format there. A caller
	// of these routes then has one way to read errors.
	Plain []string `yaml:"plain_errors" json:"-"`
	// JSONRPC are paths at and below which errors are those of JSON-RPC, as the service there has them before it has read a
	// request.
	JSONRPC []string `yaml:"jsonrpc_errors" json:"-"`
}

// JSONRPCErrors reports whether errors at a path are those of JSON-RPC.
func (t Table) JSONRPCErrors(path string) bool {
	return slices.ContainsFunc(t.JSONRPC, func(prefix string) bool { return strings.HasPrefix(path+"/", prefix+"/") })
}

// PlainErrors reports whether errors at a path are a text alone.
func (t Table) PlainErrors(path string) bool {
	return slices.ContainsFunc(t.Plain, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// Dialect returns the dialect of a path; empty for Switchyard's own.
func (t Table) Dialect(path string) string {
	for prefix, dialect := range t.Dialects {
		if strings.HasPrefix(path, prefix) {
			return dialect
		}
	}
	return ""
}

// Need returns what the route requires of a key.
func (r Route) Need() apikey.Need { return apikey.NewNeed(r.Products, r.Permission, r.Scope) }

// Rest returns the name of the path's last segment if it matches the rest; before is the part before it.
func (r Route) Rest() (before, name string, ok bool) {
	path, _ := r.Pattern()
	before, last, ok := strings.Cut(path, "{")
	name, whole := strings.CutSuffix(last, "...}")
	return before, name, ok && whole && strings.HasSuffix(before, "/") && name != "" && !strings.ContainsAny(name, "{}/. ")
}

// verb matches the verb behind the rest of a path.
var verb = regexp.MustCompile(`^(.*\.\.\.\}):([A-Za-z]+)$`)

// Pattern returns the path without its verb, and the verb; empty for none.
func (r Route) Pattern() (path, name string) {
	if found := verb.FindStringSubmatch(r.Path); found != nil {
		return found[1], found[2]
	}
	return r.Path, ""
}

// segment matches a segment that stands for any value.
var segment = regexp.MustCompile(`\{([a-z_]+)\}`)

// Names returns the names of the segments of the path that stand for one value each.
func (r Route) Names() (names []string) {
	for _, found := range segment.FindAllStringSubmatch(r.Path, -1) {
		names = append(names, found[1])
	}
	return names
}

// Filled returns the path with a value in place of each segment "{name}" and of the rest.
func (r Route) Filled(value string) string {
	path, verb := r.Pattern()
	if before, _, ok := r.Rest(); ok {
		path = before + value
	}
	if verb != "" {
		path += ":" + verb
	}
	return segment.ReplaceAllString(path, value)
}

// Snapshot returns the table of this build.
func Snapshot() (Table, error) { return parse(snapshot) }

func parse(text []byte) (Table, error) {
	var table Table
	if err := strictyaml.Decode(text, &table); err != nil {
		return Table{}, fmt.Errorf("route table: %w", err)
	}
	if table.Version == "" {
		return Table{}, errors.New("route table: version is required")
	}
	for prefix, dialect := range table.Dialects {
		if !strings.HasPrefix(prefix, root) || !strings.HasSuffix(prefix, "/") || !slices.Contains(dialects, dialect) {
			return Table{}, fmt.Errorf("route table: dialects: %s: must be a path below %s that ends in / with a known dialect", prefix, root)
		}
	}
	for _, prefix := range table.Plain {
		if !strings.HasPrefix(prefix, root) || !strings.HasSuffix(prefix, "/") || table.Dialect(prefix) != "" {
			return Table{}, fmt.Errorf("route table: plain_errors: %s: must be a path below %s that ends in / and has no dialect", prefix, root)
		}
	}
	for _, path := range table.JSONRPC {
		if !strings.HasPrefix(path, root) || strings.HasSuffix(path, "/") || table.Dialect(path+"/") != "" || table.PlainErrors(path+"/") {
			return Table{}, fmt.Errorf("route table: jsonrpc_errors: %s: must be a path below %s without / at its end, with no other form of errors", path, root)
		}
	}
	seen := make(map[string]bool)
	for i, r := range table.Routes {
		if err := r.check(); err != nil {
			return Table{}, fmt.Errorf("route table: routes[%d]: %w", i, err)
		}
		if id := r.Method + " " + r.Path; seen[id] {
			return Table{}, fmt.Errorf("route table: %s comes twice", id)
		} else {
			seen[id] = true
		}
	}
	return table, nil
}

// Names of the APIs whose SDKs may call in their own form.
const (
	DialectOpenAI    = "openai"
	DialectAnthropic = "anthropic"
	DialectAzure     = "azure" // OpenAI's API with Azure's paths
	DialectGemini    = "gemini"
)

var dialects = []string{DialectOpenAI, DialectAnthropic, DialectAzure, DialectGemini}

// root is the prefix of customers' paths; paths below meta are served by the edge itself.
const (
	root = "/product/v1/"
	meta = root + "_meta/"
)

func (r Route) check() error {
	plain := segment.ReplaceAllString(r.Path, "x")
	if before, _, ok := r.Rest(); ok {
		plain = before
	}
	target := Route{Path: r.Target}
	switch {
	case r.Method == "" || r.Upstream == "" || len(r.Products) == 0:
		return errors.New("method, upstream and products are required")
	case r.Metric == "" && !r.free():
		return errors.New("metric is required, except for what reads, changes settings or records, or sends and computes nothing")
	case !strings.HasPrefix(plain, root) || strings.HasPrefix(plain, meta) || strings.ContainsAny(plain, "{} "):
		return fmt.Errorf("path must be below %s, not below %s, and plain but for segments {name} or a last {name...}", root, meta)
	case !slices.Equal(r.Names(), target.Names()):
		return errors.New("path and target must have the same segments {name}")
	case r.WebSocket && (r.Method != http.MethodGet || r.Metric == ""):
		return errors.New("a WebSocket route must be GET with a metric")
	case r.EventStream && (r.Method != http.MethodGet || r.WebSocket):
		return errors.New("a route of server-sent events must be GET")
	case r.Summary == "" || r.HasBody() != (jsoncheck.Valid([]byte(r.Example)) || r.Form && r.Example == ""):
		return errors.New("summary is required, and with POST, PUT and PATCH an example in JSON unless the body is a form")
	case !below.MatchString(r.Target):
		return errors.New("target must be below /v1/, /v1beta/, /v2/, /openai/ or /mcp")
	case !r.Scope.IsScope():
		return errors.New("scope must be a scope of package apikey")
	case r.Permission != apikey.Read && r.Permission != apikey.Write && (r.Permission != "" || !r.Scope.Explicit()):
		return errors.New("permission must be read or write, or empty for a scope that only itself grants")
	case slices.ContainsFunc(r.Query, func(name string) bool { return strings.HasPrefix(name, "org") }):
		return errors.New("query must not name an organization: it is the key's")
	case r.ScopedBy != ScopedByOrganization && r.ScopedBy != ScopedByOwner && r.ScopedBy != ScopedByUser:
		return errors.New("scoped_by must be organization, owner or user")
	case r.Timeout <= 0:
		return errors.New("timeout must be above zero")
	}
	return nil
}

// below matches the targets that routes may have.
var below = regexp.MustCompile(`^/((v1|v1beta|v2|openai)/|mcp(/|$))`)

// HasBody reports whether requests have a body.
func (r Route) HasBody() bool {
	return r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch
}

// free reports whether a route may have no metric: what reads or changes records by their address, and what POST creates
// without sending or computing anything.
func (r Route) free() bool {
	return r.Method != http.MethodPost ||
		slices.ContainsFunc(freeEndings, func(ending string) bool { return strings.HasSuffix(r.Path, ending) })
}

// freeEndings end the paths of POST routes that count tokens, cancel, mint a token of an end user, or store a file, a setting
// or a decision.
var freeEndings = []string{
	"/count_tokens", ":countTokens", "/input_tokens", "/cancel", "/files",
	"/endpoints", "/rotate-secret", "/registrations", "/runs", "/revoke", "/abort", "/approvals", "/approve", "/deny", "/decision", "/tokens",
}

// Served returns the table without the routes whose service is not among upstreams.
func (t Table) Served(upstreams []string) Table {
	absent := func(r Route) bool { return !slices.Contains(upstreams, r.Upstream) }
	t.Routes = slices.DeleteFunc(slices.Clone(t.Routes), absent)
	return t
}

// Unbilled returns the table with routes whose calls count nothing.
func (t Table) Unbilled() Table {
	t.Routes = slices.Clone(t.Routes)
	for i := range t.Routes {
		t.Routes[i].Metric = ""
	}
	return t
}

// Products returns every product that has a route, sorted.
func (t Table) Products() []string {
	var products []string
	for _, r := range t.Routes {
		products = append(products, r.Products...)
	}
	slices.Sort(products)
	return slices.Compact(products)
}
