//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/port"
	"switchyard.dev/deploy/dev/stack"
)

// everythingProgram is the server of the protocol's Go SDK that its conformance suite is run against.
const everythingProgram = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"

// ofResumption begins the checks of answers that an older client takes up again after a break. A server may do without, and
// the gateway does: only streams of notices are resumed.
const ofResumption = "server-server-sse-polling: "

// The protocol's conformance suite finds nothing wrong in a server behind gateway and edge that it doesn't find in the
// server itself, in both revisions.
func TestToolConformance(t *testing.T) {
	t.Parallel()
	npm := clients(t)
	program := filepath.Join(t.TempDir(), "everything")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, everythingProgram).CombinedOutput(); err != nil {
		t.Fatalf("build the SDK's server: %v\n%s", err, out)
	}
	revisions := []struct{ name, id, flag, address string }{
		{name: "2026-07-28", id: "modern", flag: "-stateless=true"}, {name: "2025-11-25", id: "older", flag: "-stateless=false"},
	}
	doors := map[string]*shim{"gateway": startShim(t), "edge": startShim(t)}
	var targets, origins []string
	for i := range revisions {
		revisions[i].address = startEverything(t, program, revisions[i].flag)
		targets = append(targets, revisions[i].address)
	}
	for _, d := range doors {
		origins = append(origins, d.URL)
	}
	h := plan{name: "tool-conformance", settings: settings{stack.Gateway: {
		"GATEWAY_ALLOW_TARGETS=" + strings.Join(targets, ","), "GATEWAY_MCP_ORIGINS=" + strings.Join(origins, ","),
	}}}.start(t)
	organization := unique("org")
	gateway := h.service(stack.Gateway, organization)
	doors["gateway"].lead(t, gateway, "")
	customer := h.customer(t, organization, "ai", "write")
	doors["edge"].lead(t, customer, "/product/v1")
	h.allowPages(t, organization, customer, doors["edge"].URL)
	for _, r := range revisions {
		h.admitServer(t, gateway, r.id, "http://"+r.address+"/mcp")
		direct := conformance(t, npm, "http://"+r.address+"/mcp", "--requirements", r.name)
		for name, d := range doors {
			t.Run(r.name+" through the "+name, func(t *testing.T) {
				got := conformance(t, npm, d.URL+"/mcp/"+r.id, "--requirements", r.name)
				for check := range direct {
					if _, made := got[check]; !made && !strings.HasPrefix(check, ofResumption) {
						t.Errorf("%s: was not made", check)
					}
				}
				for check, failure := range got {
					if known, made := direct[check]; failure != "" && (!made || known == "") {
						t.Errorf("%s: %s", check, failure)
					}
				}
			})
		}
	}
}

// The server of the protocol's TypeScript SDK gives its client the same through gateway and edge as without them: lists,
// results, progress, resources, prompts, and what it asks the client in the course of a call.
func TestToolsOfTheTypeScriptSDK(t *testing.T) {
	t.Parallel()
	npm := clients(t)
	address := freeAddress(t)
	startProgram(t, address, clientRun{
		program: npm.node(t), args: []string{npm.file(t, "@modelcontextprotocol/server-everything/dist/index.js"), "streamableHttp"},
		env: []string{"PORT=" + address[strings.LastIndexByte(address, ':')+1:]},
	})
	h := plan{name: "tools-typescript", settings: settings{stack.Gateway: {"GATEWAY_ALLOW_TARGETS=" + address}}}.start(t)
	organization := unique("org")
	gateway := h.service(stack.Gateway, organization)
	h.admitServer(t, gateway, "typescript", "http://"+address+"/mcp")
	use := func(at string, c client) gjson.Result {
		headers, err := json.Marshal(map[string]string{"Authorization": c.header.Get("Authorization"), "X-Organization-Id": c.header.Get("X-Organization-Id")})
		if err != nil {
			t.Fatal(err)
		}
		return gjson.Parse(clientRun{npm.node(t), []string{"everything.mjs"}, npm.folder, []string{"URL=" + at, "HEADERS=" + string(headers)}}.run(t))
	}
	direct := use("http://"+address+"/mcp", client{header: http.Header{}})
	customer := h.customer(t, organization, "ai", "write")
	for name, got := range map[string]gjson.Result{
		"gateway": use(gateway.base+"/mcp/typescript", gateway), "edge": use(customer.base+toolsPath+"/typescript", customer),
	} {
		direct.ForEach(func(step, want gjson.Result) bool {
			if text := got.Get(gjson.Escape(step.Str)).Raw; text != want.Raw {
				t.Errorf("%s: %s:\n%s\nwant\n%s", name, step.Str, text, want.Raw)
			}
			return true
		})
	}
}

// freeAddress returns an address of this machine at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	ports, err := port.Free(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return port.At(ports[0])
}

// startEverything starts the SDK's server, and returns its address.
func startEverything(t *testing.T, program, flag string) string {
	t.Helper()
	address := freeAddress(t)
	startProgram(t, address, clientRun{program: program, args: []string{"-http", address, flag}})
	return address
}

// startProgram starts a server of tools that will listen at an address.
func startProgram(t *testing.T, address string, r clientRun) {
	t.Helper()
	command := exec.CommandContext(t.Context(), r.program, r.args...)
	command.Env = append(os.Environ(), r.env...)
	command.WaitDelay = time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	waitFor(t, waitTimeout, "the server of tools", func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/mcp", http.NoBody)
		if err != nil {
			return err
		}
		answer, err := httpClient.Do(request)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	})
}

// admitServer registers a server with all that it offers, trusts it and approves its definitions.
func (h *harness) admitServer(t *testing.T, gateway client, id, address string, more ...string) {
	t.Helper()
	gateway.post(t, serversPath, object{
		"server_id": id, "url": address, "registered_by": "ada", "features": append([]string{"tools", "resources", "prompts", "completions"}, more...),
	}).want(t, http.StatusCreated)
	gateway.post(t, trustPath, object{"server_id": id, "level": "COMMUNITY", "assigned_by": "ada"}).want(t, http.StatusCreated)
	waitFor(t, waitTimeout, "the review of "+id, func() error {
		var server struct {
			Digest string `json:"listing_digest"`
		}
		gateway.get(t, serversPath+"/"+id).into(t, http.StatusOK, &server)
		if server.Digest == "" {
			return fmt.Errorf("its tools are not listed")
		}
		gateway.post(t, serversPath+"/"+id+"/review", object{"listing_digest": server.Digest, "decision": "approve", "reviewed_by": "bob"}).want(t, http.StatusOK)
		return nil
	})
}

// allowPages lets pages of an origin call tools through the edge.
func (h *harness) allowPages(t *testing.T, organization string, customer client, origin string) {
	t.Helper()
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/organizations/"+organization+"/origins", object{"origins": []string{origin}}).want(t, http.StatusOK)
	waitFor(t, waitTimeout, "the origin", func() error {
		if a := customer.with("Origin", origin).post(t, toolsPath, object{}); a.status == http.StatusForbidden {
			return fmt.Errorf("%s", a.body)
		}
		return nil
	})
}

// shim adds a client's credentials to the suite's requests, which have none.
type shim struct {
	*httptest.Server

	rewrite func(*httputil.ProxyRequest)
}

// startShim starts a shim, which leads to no address yet: the gateway's settings name its own.
func startShim(t *testing.T) *shim {
	t.Helper()
	s := &shim{}
	s.Server = httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { s.rewrite(r) }})
	t.Cleanup(s.Close)
	return s
}

// lead makes the shim call a client's address, behind a prefix of the path.
func (s *shim) lead(t *testing.T, c client, prefix string) {
	t.Helper()
	target, err := url.Parse(c.base + prefix)
	if err != nil {
		t.Fatal(err)
	}
	s.rewrite = func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		maps.Copy(r.Out.Header, c.header)
		// A body that is still read when the answer begins would end the connection.
		if text, err := io.ReadAll(r.In.Body); err == nil && len(text) > 0 {
			r.Out.Body = io.NopCloser(bytes.NewReader(text))
		}
	}
}

// timeSuffix ends the name of a folder of results.
var timeSuffix = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[-\d]+Z$`)

// conformance runs the scenarios that arguments of the suite select, and returns the failures of their checks; empty for a
// check that passed.
func conformance(t *testing.T, npm npmClients, address string, arguments ...string) map[string]string {
	t.Helper()
	results := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, npm.node(t), append([]string{
		npm.file(t, "@modelcontextprotocol/conformance/dist/index.js"), "server", "--url", address, "--output-dir", results, "--timeout", "90000",
	}, arguments...)...)
	out, err := command.CombinedOutput() // It fails if a check does.
	files, globErr := filepath.Glob(filepath.Join(results, "*", "checks.json"))
	if globErr != nil || len(files) == 0 {
		t.Fatalf("the suite made no checks: %v\n%s", err, out)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []suiteCheck
		if err := json.Unmarshal(text, &checks); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		scenario := timeSuffix.ReplaceAllString(filepath.Base(filepath.Dir(file)), "")
		for _, c := range checks { // One that is made several times fails if it fails once.
			if name := scenario + ": " + c.ID; all[name] == "" {
				all[name] = c.failure()
			}
		}
	}
	return all
}

// suiteCheck is a check as the suite reports it.
type suiteCheck struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Error  string `json:"errorMessage"`
}

// failure returns why the check failed; empty if it did not.
func (c suiteCheck) failure() string {
	if c.Status != "FAILURE" {
		return ""
	}
	return "failed: " + c.Error
}
