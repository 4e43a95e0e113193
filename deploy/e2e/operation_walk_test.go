//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/deploy/contract"
	"switchyard.dev/deploy/dev/stack"
)

// The operations that limit an organization's spending (keys, suspension, runs, budgets, approvals, trust, what a
// leaked key touched, the audit) are rows of one table, see controls. The tests here run each row: success and
// refusals, another organization, concurrent callers, kill -9.

// fixture is one organization with the preconditions of a row, and the names of what was created.
type fixture struct {
	*harness

	organization string
	own          client // calls as a first-party service for the organization
	operator     client
	// names holds the values of the parameters of paths, by the parameter's name.
	names map[string]string
}

func newFixture(h *harness) *fixture {
	organization := unique("org")
	return &fixture{
		harness: h, organization: organization, own: h.service(stack.Gateway, organization), operator: h.operator(stack.Gateway),
		names: map[string]string{"org_id": organization, "provider": tableVendor.name, "run_id": unique("run"), "server_id": "files", "ref": "appr_none"},
	}
}

// control is a row of the table: one operation.
type control struct {
	method string // of the contract, without its package
	// given creates what the operation needs; nil for nothing.
	given func(*testing.T, *fixture)
	// query and body are those of a call that succeeds; nil for none. The call answers with status and fields.
	query  string
	body   func(*fixture) object
	status int
	fields []string
	// refusals are calls of the operation that are refused.
	refusals []refusal
	// foreign is the status that another organization gets when its path names something of this one: 404, or 200 for
	// operations that show the caller's own only; 0 where no path names anything.
	foreign int
	// late is the status of all but the first of ten concurrent callers; 0 for the same as the first. rows is the number
	// of audit entries with the action after those ten calls.
	late   int
	action string
	rows   int
}

// refusal is a call that is refused. Its fields replace those of the call that succeeds; nil ones are removed.
type refusal struct {
	why   string
	names map[string]string // in place of the fixture's
	query string
	body  object
	// bare is set for a call without the preconditions of the row.
	bare   bool
	given  func(*testing.T, *fixture) // runs after the row's own given
	status int
	code   string
	text   string // part of the reason: the field, and the rule
}

// operation returns the row's operation in the contract.
func (c *control) operation(t *testing.T) contract.Operation {
	t.Helper()
	operations, _ := contract.Operations(contracts[stack.Gateway])
	i := slices.IndexFunc(operations, func(o contract.Operation) bool { return o.Method == string(contracts[stack.Gateway])+"."+c.method })
	if i < 0 {
		t.Fatalf("the contract has no method %s", c.method)
	}
	return operations[i]
}

// as returns the client with the role that the operation needs.
func (f *fixture) as(o contract.Operation) client {
	if o.Role.String() == "ROLE_OPERATOR" {
		return f.operator
	}
	return f.own
}

// path returns the operation's path, with names, else the fixture's, in place of its parameters.
func (f *fixture) path(o contract.Operation, names map[string]string, queries ...string) string {
	path := o.Path
	for _, of := range []map[string]string{names, f.names} {
		for name, value := range of {
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
		}
	}
	if query := strings.Trim(strings.Join(queries, "&"), "&"); query != "" {
		path += "?" + query
	}
	return path
}

// prepare creates what the operation needs.
func (c *control) prepare(t *testing.T, f *fixture) {
	t.Helper()
	if c.given != nil {
		c.given(t, f)
	}
}

// call makes the call that succeeds.
func (c *control) call(t *testing.T, f *fixture, from client) answer {
	t.Helper()
	o := c.operation(t)
	return from.do(t, o.Verb, f.path(o, nil, c.query), c.payload(f, o.Verb, nil))
}

// payload returns the body, with fields replaced or, where nil, removed.
func (c *control) payload(f *fixture, verb string, other object) any {
	if verb == http.MethodGet || verb == http.MethodDelete {
		return nil
	}
	body := object{}
	if c.body != nil {
		body = c.body(f)
	}
	body = body.with(other)
	maps.DeleteFunc(body, func(_ string, value any) bool { return value == nil })
	return body
}

// Every operation of tableServices has its row, so that a new one can't be forgotten. TestReflectionAndHealthOverGRPC
// checks that the gateway serves the contract's services and no others.
func TestEveryOperationHasARow(t *testing.T) {
	t.Parallel()
	rows := make(map[string]bool)
	for i := range controls {
		rows[controls[i].method] = true
	}
	operations, _ := contract.Operations(contracts[stack.Gateway])
	seen := 0
	for _, o := range operations {
		method := strings.TrimPrefix(o.Method, string(contracts[stack.Gateway])+".")
		service, _, _ := strings.Cut(method, ".")
		if !slices.Contains(tableServices, service) || slices.Contains(elsewhere, method) {
			continue
		}
		seen++
		if !rows[method] {
			t.Errorf("%s has no row", method)
		}
	}
	if seen != len(controls) || seen < 30 {
		t.Errorf("%d operations, %d rows", seen, len(controls))
	}
}

// Each operation succeeds, and is refused in each way that the contract names, with an error that says what is wrong
// and where.
func TestControlRefusals(t *testing.T) {
	t.Parallel()
	h := use(t)
	for i := range controls {
		c := &controls[i]
		t.Run(c.method, func(t *testing.T) {
			f := newFixture(h)
			c.prepare(t, f)
			o := c.operation(t)
			if a := c.call(t, f, f.as(o)); c.status == http.StatusNoContent {
				a.want(t, c.status)
			} else {
				a.fields(t, c.status, c.fields...)
			}
			common := []refusal{{why: "an unknown field", body: object{"colour": "red"}, status: http.StatusBadRequest, code: "invalid_request", text: "colour"}}
			if o.Verb == http.MethodGet || o.Verb == http.MethodDelete {
				common = []refusal{{why: "an unknown parameter", query: "colour=red", status: http.StatusBadRequest, code: "invalid_request", text: "colour"}}
			}
			for _, r := range append(common, c.refusals...) {
				t.Run(r.why, func(t *testing.T) {
					f := newFixture(h)
					if !r.bare {
						c.prepare(t, f)
					}
					if r.given != nil {
						r.given(t, f)
					}
					f.as(o).do(t, o.Verb, f.path(o, r.names, c.query, r.query), c.payload(f, o.Verb, r.body)).refused(t, r.status, r.code, r.text)
				})
			}
		})
	}
}

// No other organization reads or changes what belongs to an organization, neither by naming it in a path nor by
// claiming to be that organization.
func TestControlForeignOrganization(t *testing.T) {
	t.Parallel()
	h := use(t)
	for i := range controls {
		c := &controls[i]
		t.Run(c.method, func(t *testing.T) {
			o := c.operation(t)
			f := newFixture(h)
			c.prepare(t, f)
			before := f.state(t)
			otherCaller := f.as(o).with("X-Organization-Id", unique("org"))
			if claim := c.payload(f, o.Verb, object{"organization_id": f.organization}); claim != nil && !strings.Contains(o.Path, "{org_id}") {
				otherCaller.do(t, o.Verb, f.path(o, nil, c.query), claim).refused(t, http.StatusForbidden, "organization_mismatch", "organization_id")
			}
			if strings.Contains(o.Path, "{org_id}") {
				c.call(t, f, otherCaller).refused(t, http.StatusForbidden, "organization_mismatch", "")
			} else if c.foreign != 0 {
				if a := c.call(t, f, otherCaller).want(t, c.foreign); a.status < 300 && strings.Contains(string(a.body), f.organization) {
					t.Errorf("another organization sees %s", shorten(a.body))
				}
			}
			same(t, before, f.state(t))
		})
	}
}

// state returns all that can be read of an organization, by path.
func (f *fixture) state(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	own := []string{
		"/v1/byok/config", "/v1/byok/config/" + f.names["provider"] + "/lifecycle", "/v1/approvals", "/v1/approvals/" + f.names["ref"],
		"/v1/mcp/trust/" + f.organization, "/v1/mcp/trust/" + f.organization + "/files/history", "/v1/runs/" + f.names["run_id"] + "/authority",
	}
	operators := []string{
		"/v1/admin/orgs/" + f.organization + "/spend", "/v1/admin/sessions/" + f.names["run_id"] + "/spend?organization_id=" + f.organization,
		"/v1/admin/audit?organization_id=" + f.organization,
	}
	for from, paths := range map[*client][]string{&f.own: own, &f.operator: operators} {
		for _, path := range paths {
			a := from.get(t, path)
			if all[path] = fmt.Sprint(a.status, " ", string(a.body)); a.status >= http.StatusBadRequest {
				all[path] = fmt.Sprint(a.status) // An error's body differs by request.
			}
		}
	}
	return all
}

// The effect of each operation is the same, to the byte, after kill -9 of every replica.
func TestControlOutlivesAKill(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	fixtures := make([]*fixture, len(controls))
	before := make([]map[string]string, len(controls))
	for i := range controls {
		c := &controls[i]
		fixtures[i] = newFixture(h)
		c.prepare(t, fixtures[i])
		c.call(t, fixtures[i], fixtures[i].as(c.operation(t))).want(t, c.status)
		before[i] = fixtures[i].state(t)
	}
	for _, member := range []stack.Service{stack.Gateway, secondGateway} {
		if err := errors.Join(h.Kill(string(member)), h.Restart(t.Context(), string(member))); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range fixtures {
		t.Run(controls[i].method, func(t *testing.T) {
			same(t, before[i], f.state(t))
			f.own.base, f.operator.base = h.URL(string(secondGateway)), h.URL(string(secondGateway))
			same(t, before[i], f.state(t))
		})
	}
}

// Ten concurrent callers on two replicas get the answers that they could have got one after the other: an operation
// that works once works for one of them, and the audit has an entry for each effect.
func TestControlRaces(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	const callers = 10
	for i := range controls {
		c := &controls[i]
		if c.action == "" {
			continue
		}
		t.Run(c.method, func(t *testing.T) {
			f := newFixture(h)
			c.prepare(t, f)
			o := c.operation(t)
			path, body := f.path(o, nil, c.query), c.payload(f, o.Verb, nil)
			statuses := make([]int, callers)
			var group sync.WaitGroup
			for n := range callers {
				from := f.as(o)
				from.base = h.gateways("")[n%2].base
				group.Go(func() { statuses[n] = from.do(t, o.Verb, path, body).status })
			}
			group.Wait()
			slices.Sort(statuses)
			late := c.late
			if late == 0 {
				late = c.status
			}
			want := slices.Repeat([]int{late}, callers)
			want[0] = c.status
			slices.Sort(want)
			if !slices.Equal(statuses, want) {
				t.Errorf("answers %v, want %v", statuses, want)
			}
			audit := f.operator.get(t, "/v1/admin/audit?limit=200&organization_id="+f.organization+"&action="+c.action).want(t, http.StatusOK)
			if rows := strings.Count(string(audit.body), `"action":"`+c.action+`"`); rows != c.rows {
				t.Errorf("%d rows of %s, want %d: %s", rows, c.action, c.rows, shorten(audit.body))
			}
		})
	}
}

// secretFor writes a secret into the organization's folder, and returns the reference to it.
func (f *fixture) secretFor(t *testing.T, name string) string {
	t.Helper()
	folder := filepath.Join(f.State(), "secrets", "gateway-organizations", f.organization)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name), []byte(newKey(f.organization+name)), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file:" + name
}

// later returns the time after d, which may be negative.
func later(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
