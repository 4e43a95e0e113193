// Package reference renders the customers' page of documents, with a script that only finds, from what the edge serves:
// the route table, its OpenAPI document, the recipes, the contract's error codes, the types of Switchyard's events, and
// the document for receivers of webhooks. Package api serves it.
package reference

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apidoc"
)

// StylePath is the path of the page's style sheet, ScriptPath that of the script that finds routes, IconPath that of its icon.
const (
	StylePath  = apidoc.PagePath + ".css"
	ScriptPath = apidoc.PagePath + ".js"
	IconPath   = apidoc.PagePath + ".svg"
)

// policy lets the page load its own style sheet, script and icon, and nothing else (Content Security Policy level 3).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

var (
	//go:embed page.html
	layout string
	//go:embed page.css
	style []byte
	//go:embed page.js
	script []byte
	//go:embed recipes.json
	recipeText []byte
	//go:embed receiver.html
	receiver string
)

// Limits are the bounds of requests that the page states.
type Limits struct {
	Body      int64         // bytes of a body
	BodyTime  time.Duration // for a body to arrive
	WriteTime time.Duration // for a piece of an answer to be read
}

// Handlers returns the handlers of the page, its style sheet, script and icon, by path. document is the OpenAPI document of the table,
// codes are the contract's error codes: a JSON list of objects with code, status and meaning.
func Handlers(table route.Table, document, codes []byte, limits Limits) (map[string]http.Handler, error) {
	page, err := newPage(table, document, codes, limits)
	if err != nil {
		return nil, fmt.Errorf("page of documents: %w", err)
	}
	t, err := template.New("page").Parse(layout)
	if err != nil {
		return nil, fmt.Errorf("page of documents: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, page); err != nil {
		return nil, fmt.Errorf("page of documents: %w", err)
	}
	headers := []string{"Content-Security-Policy", policy, "Referrer-Policy", "no-referrer"}
	return map[string]http.Handler{
		apidoc.PagePath: apidoc.Fixed("text/html; charset=utf-8", out.Bytes(), headers...),
		StylePath:       apidoc.Fixed("text/css; charset=utf-8", style, headers...),
		ScriptPath:      apidoc.Fixed("text/javascript; charset=utf-8", script, headers...),
		IconPath:        apidoc.Fixed(apidoc.IconType, apidoc.Icon, headers...),
	}, nil
}

// page is what the layout shows.
type page struct {
	Version  string
	Products []string
	Areas    []area
	Scopes   []scope
	Meta     []meta    // operations of the edge itself
	Headers  []field   // that any request may have
	Refusals []refusal // that any route may answer with
	Codes    []code
	Limits   Limits
	Receiver template.HTML
	Events   []eventType // of Switchyard
	// EndUserScopes are those that a token of an end user may have.
	EndUserScopes []apikey.Permission
}

// meta is an operation of the edge itself, which the table of routes does not have.
type meta struct {
	ID, Method, Path, Summary string
	Open                      bool // it needs no key
	Answer                    []field
}

// area is the first part of scopes, with the routes of its resources, the second part.
type area struct {
	Name      string
	Resources []resource
}

type resource struct {
	Name   string
	Routes []entry
}

// entry is a route of the page.
type entry struct {
	route.Route
	ID                   string // the anchor
	Description          string
	Dialect              string // name of another API that the route speaks; empty for none
	Parameters           []field
	Body, Answer         []field
	BodyTypes, AnswerAre string // media types
	Statuses             []string
	Recipe               string
}

// scope is a scope with the routes that it opens.
type scope struct {
	Name   string
	Routes []entry
}

type refusal struct{ Status, Meaning string }

// code is an error code of the contract.
type code struct {
	Code    string `json:"code"`
	Status  string `json:"status"` // of HTTP; empty where it depends
	Meaning string `json:"meaning"`
}

func newPage(table route.Table, text, codes []byte, limits Limits) (page, error) {
	p := page{
		Version: table.Version, Products: table.Products(), EndUserScopes: apikey.EndUserScopes(), Limits: limits,
		Receiver: template.HTML(table.ForCustomers(receiver)), Events: eventTypes(),
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return page{}, fmt.Errorf("OpenAPI document: %w", err)
	}
	recipes, err := readRecipes(recipeText)
	if err != nil {
		return page{}, err
	}
	if err := json.Unmarshal(codes, &p.Codes); err != nil {
		return page{}, fmt.Errorf("error codes: %w", err)
	}
	for i := range p.Codes {
		p.Codes[i].Meaning = table.ForCustomers(p.Codes[i].Meaning)
	}
	for _, r := range table.Routes {
		o, ok := d.operation(r)
		if !ok {
			return page{}, fmt.Errorf("the OpenAPI document lacks %s %s", r.Method, r.Path)
		}
		e := newEntry(r, o, d)
		e.Dialect, e.Recipe = table.Dialect(r.Path), recipes.of(r)
		p.add(e)
		p.note(o)
	}
	p.Meta = d.meta()
	if len(p.Areas) == 0 {
		return page{}, errors.New("no route is served")
	}
	slices.SortFunc(p.Scopes, func(a, b scope) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Refusals, func(a, b refusal) int { return cmp.Compare(a.Status, b.Status) })
	return p, nil
}

// add puts a route under its area, resource and scope, which are in the order of their first routes.
func (p *page) add(e entry) {
	parts := strings.SplitN(string(e.Scope), ":", 3)
	i := slices.IndexFunc(p.Areas, func(a area) bool { return a.Name == parts[0] })
	if i < 0 {
		i, p.Areas = len(p.Areas), append(p.Areas, area{Name: parts[0]})
	}
	a := &p.Areas[i]
	j := slices.IndexFunc(a.Resources, func(r resource) bool { return r.Name == parts[1] })
	if j < 0 {
		j, a.Resources = len(a.Resources), append(a.Resources, resource{Name: parts[1]})
	}
	a.Resources[j].Routes = append(a.Resources[j].Routes, e)
	k := slices.IndexFunc(p.Scopes, func(s scope) bool { return s.Name == string(e.Scope) })
	if k < 0 {
		k, p.Scopes = len(p.Scopes), append(p.Scopes, scope{Name: string(e.Scope)})
	}
	p.Scopes[k].Routes = append(p.Scopes[k].Routes, e)
}

// note collects the headers and refusals that operations have in common.
func (p *page) note(o operation) {
	for _, parameter := range o.Parameters {
		known := func(f field) bool { return f.Name == parameter.Name }
		if parameter.In == inHeader && !slices.ContainsFunc(p.Headers, known) {
			p.Headers = append(p.Headers, parameter.field())
		}
	}
	for status, response := range o.Responses {
		known := func(r refusal) bool { return r.Status == status }
		if status >= "400" && status <= "599" && !slices.ContainsFunc(p.Refusals, known) {
			p.Refusals = append(p.Refusals, refusal{status, response.Description})
		}
	}
}

func newEntry(r route.Route, o operation, d document) entry {
	e := entry{Route: r, ID: o.OperationID, Description: o.Description}
	for _, parameter := range o.Parameters {
		if parameter.In != inHeader {
			e.Parameters = append(e.Parameters, parameter.field())
		}
	}
	e.BodyTypes, e.Body = d.content(o.RequestBody.Content)
	for _, status := range []string{"200", "201", "101"} {
		if response, ok := o.Responses[status]; ok {
			e.AnswerAre, e.Answer = d.content(response.Content)
		}
	}
	for status := range o.Responses {
		if status >= "400" && status <= "599" {
			e.Statuses = append(e.Statuses, status)
		}
	}
	slices.Sort(e.Statuses)
	return e
}
