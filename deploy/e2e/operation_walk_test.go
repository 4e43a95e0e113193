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

// The operations by which an organization's spending is held (keys, suspension, runs,
// budgets, approvals, trust, what a leaked key touched, the audit) are one table, see
// controls. The tests here walk it: success and refusals, another organization,
// callers at once, kill -9.

// scene is one organization with whatever a row needs, and the names of that.
type scene struct {
	*harness

	organization string
	own          client // calls as the organization's service; operator calls as an operator
	operator     client
	// names fill in paths, by the parameter's name.
	names map[string]string
}

func newScene(h *harness) *scene {
	organization := unique("org")
	return &scene{
		harness: h, organization: organization, own: h.service(stack.Gateway, organization), operator: h.operator(stack.Gateway),
		names: map[string]string{"org_id": organization, "provider": ownScene.name, "run_id": unique("run"), "server_id": "files", "ref": "appr_none"},
	}
}

// control is an operation of the table.
type control struct {
	method string // of the contract, without its package
	// given makes what the operation needs; nil for nothing.
	given func(*testing.T, *scene)
	// query and body of a call that succeeds; nil for none. It answers status with
	// fields.
	query  string
	body   func(*scene) object
	status int
	fields []string
	// refusals are the ways in which it is refused.
	refusals []refusal
	// foreign is what another organization gets that names what is this one's by its
	// path: 404, or 200 for what shows its own only; 0 where no path names anything.
	foreign int
	// late is what all but the first of several callers at once get; 0 for the same
	// as the first. rows are those in the audit after ten of them, with the action.
	late   int
	action string
	rows   int
}

// refusal is a call that is refused. Fields replace those of the call that succeeds;
// those that are nil are taken out.
type refusal struct {
	why   string
	names map[string]string // in place of the scene's
	query string
	body  object
	// bare: nothing was made before.
	bare   bool
	given  func(*testing.T, *scene) // after what the operation needs
	status int
	code   string
	text   string // of the reason: the field, and the rule
}

// operation is what the contract says of a row.
func (c *control) operation(t *testing.T) contract.Operation {
	t.Helper()
	operations, _ := contract.Operations(contracts[stack.Gateway])
	i := slices.IndexFunc(operations, func(o contract.Operation) bool { return o.Method == string(contracts[stack.Gateway])+"."+c.method })
	if i < 0 {
		t.Fatalf("the contract has no method %s", c.method)
	}
	return operations[i]
}

// as is the caller with the role that the operation needs.
func (s *scene) as(o contract.Operation) client {
	if o.Role.String() == "ROLE_OPERATOR" {
		return s.operator
	}
	return s.own
}

// path is the operation's, with the scene's names or others in its parameters.
func (s *scene) path(o contract.Operation, names map[string]string, queries ...string) string {
	path := o.Path
	for _, of := range []map[string]string{names, s.names} {
		for name, value := range of {
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
		}
	}
	if query := strings.Trim(strings.Join(queries, "&"), "&"); query != "" {
		path += "?" + query
	}
	return path
}

// prepare makes what the operation needs.
func (c *control) prepare(t *testing.T, s *scene) {
	t.Helper()
	if c.given != nil {
		c.given(t, s)
	}
}

// call is the one that succeeds.
func (c *control) call(t *testing.T, s *scene, from client) answer {
	t.Helper()
	o := c.operation(t)
	return from.do(t, o.Verb, s.path(o, nil, c.query), c.payload(s, o.Verb, nil))
}

// payload is the body, with fields replaced or taken out.
func (c *control) payload(s *scene, verb string, other object) any {
	if verb == http.MethodGet || verb == http.MethodDelete {
		return nil
	}
	body := object{}
	if c.body != nil {
		body = c.body(s)
	}
	body = body.with(other)
	maps.DeleteFunc(body, func(_ string, value any) bool { return value == nil })
	return body
}

// Every operation of these services has its row, so that a new one can't be
// forgotten; that the gateway serves the contract's services and no others is seen in
// TestReflectionAndHealthOverGRPC.
func TestControlTableIsWhole(t *testing.T) {
	rows := make(map[string]bool)
	for i := range controls {
		rows[controls[i].method] = true
	}
	operations, _ := contract.Operations(contracts[stack.Gateway])
	seen := 0
	for _, o := range operations {
		method := strings.TrimPrefix(o.Method, string(contracts[stack.Gateway])+".")
		service, _, _ := strings.Cut(method, ".")
		if !slices.Contains(controlServices, service) {
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

// Each operation succeeds, and is refused in each way that the contract names, with
// an error that says what is wrong and where.
func TestControlRefusals(t *testing.T) {
	t.Parallel()
	h := use(t)
	for i := range controls {
		c := &controls[i]
		t.Run(c.method, func(t *testing.T) {
			s := newScene(h)
			c.prepare(t, s)
			o := c.operation(t)
			if a := c.call(t, s, s.as(o)); c.status == http.StatusNoContent {
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
					s := newScene(h)
					if !r.bare {
						c.prepare(t, s)
					}
					if r.given != nil {
						r.given(t, s)
					}
					s.as(o).do(t, o.Verb, s.path(o, r.names, c.query, r.query), c.payload(s, o.Verb, r.body)).refused(t, r.status, r.code, r.text)
				})
			}
		})
	}
}

// What is one organization's no other one sees or changes, whether it names it by its
// path or says that it is that organization.
func TestControlForeignOrganization(t *testing.T) {
	t.Parallel()
	h := use(t)
	for i := range controls {
		c := &controls[i]
		t.Run(c.method, func(t *testing.T) {
			o := c.operation(t)
			s := newScene(h)
			c.prepare(t, s)
			before := s.state(t)
			stranger := s.as(o).with("X-Organization-Id", unique("org"))
			if claim := c.payload(s, o.Verb, object{"organization_id": s.organization}); claim != nil && !strings.Contains(o.Path, "{org_id}") {
				stranger.do(t, o.Verb, s.path(o, nil, c.query), claim).refused(t, http.StatusForbidden, "organization_mismatch", "organization_id")
			}
			if strings.Contains(o.Path, "{org_id}") {
				c.call(t, s, stranger).refused(t, http.StatusForbidden, "organization_mismatch", "")
			} else if c.foreign != 0 {
				if a := c.call(t, s, stranger).want(t, c.foreign); a.status < 300 && strings.Contains(string(a.body), s.organization) {
					t.Errorf("a stranger sees %s", shorten(a.body))
				}
			}
			same(t, before, s.state(t))
		})
	}
}

// state is all that can be read of an organization.
func (s *scene) state(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	own := []string{
		"/v1/byok/config", "/v1/byok/config/" + s.names["provider"] + "/lifecycle", "/v1/approvals", "/v1/approvals/" + s.names["ref"],
		"/v1/mcp/trust/" + s.organization, "/v1/mcp/trust/" + s.organization + "/files/history", "/v1/runs/" + s.names["run_id"] + "/authority",
	}
	operators := []string{
		"/v1/admin/orgs/" + s.organization + "/spend", "/v1/admin/sessions/" + s.names["run_id"] + "/spend?organization_id=" + s.organization,
		"/v1/admin/audit?organization_id=" + s.organization,
	}
	for from, paths := range map[*client][]string{&s.own: own, &s.operator: operators} {
		for _, path := range paths {
			a := from.get(t, path)
			if all[path] = fmt.Sprint(a.status, " ", string(a.body)); a.status >= http.StatusBadRequest {
				all[path] = fmt.Sprint(a.status) // The rest is of the request.
			}
		}
	}
	return all
}

// What each operation did is there after kill -9 of every replica, to the byte.
func TestControlOutlivesAKill(t *testing.T) {
	h := pairOfGateways(t)
	scenes := make([]*scene, len(controls))
	before := make([]map[string]string, len(controls))
	for i := range controls {
		c := &controls[i]
		scenes[i] = newScene(h)
		c.prepare(t, scenes[i])
		c.call(t, scenes[i], scenes[i].as(c.operation(t))).want(t, c.status)
		before[i] = scenes[i].state(t)
	}
	for _, member := range []stack.Service{stack.Gateway, secondGateway} {
		if err := errors.Join(h.Kill(string(member)), h.Restart(t.Context(), string(member))); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range scenes {
		t.Run(controls[i].method, func(t *testing.T) {
			same(t, before[i], s.state(t))
			s.own.base, s.operator.base = h.URL(string(secondGateway)), h.URL(string(secondGateway))
			same(t, before[i], s.state(t))
		})
	}
}

// Of ten callers at once on two replicas each gets an answer that one after the other
// could have got: what happens once happens once, and the audit has what happened.
func TestControlRaces(t *testing.T) {
	h := pairOfGateways(t)
	const callers = 10
	for i := range controls {
		c := &controls[i]
		if c.action == "" {
			continue
		}
		t.Run(c.method, func(t *testing.T) {
			s := newScene(h)
			c.prepare(t, s)
			o := c.operation(t)
			path, body := s.path(o, nil, c.query), c.payload(s, o.Verb, nil)
			statuses := make([]int, callers)
			var group sync.WaitGroup
			for n := range callers {
				from := s.as(o)
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
			audit := s.operator.get(t, "/v1/admin/audit?limit=200&organization_id="+s.organization+"&action="+c.action).want(t, http.StatusOK)
			if rows := strings.Count(string(audit.body), `"action":"`+c.action+`"`); rows != c.rows {
				t.Errorf("%d rows of %s, want %d: %s", rows, c.action, c.rows, shorten(audit.body))
			}
		})
	}
}

// secretFor puts a secret into the organization's folder, which its references name.
func (s *scene) secretFor(t *testing.T, name string) string {
	t.Helper()
	folder := filepath.Join(s.State(), "secrets", "gateway-organizations", s.organization)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name), []byte(newKey(s.organization+name)), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file:" + name
}

// later is a time in the future, or in the past.
func later(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
