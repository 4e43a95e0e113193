// Package route owns the table of customer-keyed routes, a versioned snapshot
// that ships with the edge. The app package loads it, the api package serves it.
package route

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

//go:embed snapshot_v1.yaml
var snapshot []byte

// Route is one operation that customers may call.
type Route struct {
	Method string `yaml:"method" json:"method"`
	// Path is plain, but for a last segment "{name...}" that stands for the rest.
	Path       string            `yaml:"path"       json:"path"`
	Products   []string          `yaml:"products"   json:"products"`
	Permission apikey.Permission `yaml:"permission" json:"permission"`
	// Metric counts the route's successful calls; empty counts none.
	Metric string `yaml:"metric" json:"metric"`
	// Summary and Example are for the OpenAPI document; the example is a body that
	// works as it is.
	Summary string `yaml:"summary" json:"-"`
	Example string `yaml:"example" json:"-"`
	// Upstream names the service behind the route, Target the path there, below
	// which the rest of a path goes as one segment, Timeout how long its answer may
	// take to begin.
	Upstream string        `yaml:"upstream" json:"-"`
	Target   string        `yaml:"target"   json:"-"`
	Timeout  time.Duration `yaml:"timeout"  json:"-"`
}

// Table is a version of all routes. As JSON it is the catalog.
type Table struct {
	Version string  `yaml:"version" json:"version"`
	Routes  []Route `yaml:"routes"  json:"routes"`
	// Dialects are the names of other APIs by the prefix below which their SDKs
	// call: these are answered, errors too, in that API's words.
	Dialects map[string]string `yaml:"dialects" json:"-"`
	// Plain are prefixes below which the service's errors are a text alone, and the
	// edge's are like them.
	Plain []string `yaml:"plain_errors" json:"-"`
}

// PlainErrors reports whether errors at a path are a text alone.
func (t Table) PlainErrors(path string) bool {
	return slices.ContainsFunc(t.Plain, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// Dialect of a path; empty is our own words.
func (t Table) Dialect(path string) string {
	for prefix, dialect := range t.Dialects {
		if strings.HasPrefix(path, prefix) {
			return dialect
		}
	}
	return ""
}

// Rest is the name of the path's last segment when that stands for the rest;
// before is what comes before it.
func (r Route) Rest() (before, name string, ok bool) {
	before, last, ok := strings.Cut(r.Path, "{")
	name, whole := strings.CutSuffix(last, "...}")
	return before, name, ok && whole && strings.HasSuffix(before, "/") && name != "" && !strings.ContainsAny(name, "{}/. ")
}

// Snapshot is the table that ships with this build.
func Snapshot() (Table, error) { return parse(snapshot) }

func parse(text []byte) (Table, error) {
	var table Table
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&table); err != nil {
		return Table{}, fmt.Errorf("route table: %w", err)
	}
	if table.Version == "" {
		return Table{}, errors.New("route table: version is required")
	}
	for prefix, dialect := range table.Dialects {
		if !strings.HasPrefix(prefix, root) || !strings.HasSuffix(prefix, "/") || apierr.Body(dialect, nil) == nil {
			return Table{}, fmt.Errorf("route table: dialects: %s: must be a path below %s that ends in / with a known dialect", prefix, root)
		}
	}
	for _, prefix := range table.Plain {
		if !strings.HasPrefix(prefix, root) || !strings.HasSuffix(prefix, "/") || table.Dialect(prefix) != "" {
			return Table{}, fmt.Errorf("route table: plain_errors: %s: must be a path below %s that ends in / and has no dialect", prefix, root)
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

// root is where customers' paths begin; below meta the edge answers itself.
const (
	root = "/product/v1/"
	meta = root + "_meta/"
)

func (r Route) check() error {
	plain := r.Path
	if before, _, ok := r.Rest(); ok {
		plain = before
	}
	switch {
	case r.Method == "" || r.Upstream == "" || len(r.Products) == 0:
		return errors.New("method, upstream and products are required")
	case r.Metric == "" && !r.free():
		return errors.New("metric is required, but for what only reads and what counts tokens")
	case !strings.HasPrefix(plain, root) || strings.HasPrefix(plain, meta) || strings.ContainsAny(plain, "{} "):
		return fmt.Errorf("path must be below %s, not below %s, and plain but for a last {name...}", root, meta)
	case r.Summary == "" || (r.Method == http.MethodPost) != jsoncheck.Valid([]byte(r.Example)):
		return errors.New("summary is required, and with POST an example in JSON")
	case !strings.HasPrefix(r.Target, "/v1/"):
		return errors.New("target must be below /v1/")
	case r.Permission != apikey.Read && r.Permission != apikey.Write:
		return errors.New("permission must be read or write")
	case r.Timeout <= 0:
		return errors.New("timeout must be above zero")
	}
	return nil
}

// free tells that a route without a metric is meant so.
func (r Route) free() bool {
	return r.Method == http.MethodGet || strings.HasSuffix(r.Path, "/count_tokens")
}

// Served is the table without the routes whose service is not among upstreams.
func (t Table) Served(upstreams []string) Table {
	absent := func(r Route) bool { return !slices.Contains(upstreams, r.Upstream) }
	t.Routes = slices.DeleteFunc(slices.Clone(t.Routes), absent)
	return t
}

// Products lists every product that opens a route, sorted.
func (t Table) Products() []string {
	var products []string
	for _, r := range t.Routes {
		products = append(products, r.Products...)
	}
	slices.Sort(products)
	return slices.Compact(products)
}
