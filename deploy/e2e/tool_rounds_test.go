//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// A server that asks its callers gets the same answers through the gateway as without it: the everything server of the
// SDK, and the SDK's client. A call is billed once, however many rounds it takes.
func TestToolRounds(t *testing.T) {
	t.Parallel()
	address := statelessEverything(t)
	h := plan{name: "tool-rounds", settings: settings{stack.Gateway: {"GATEWAY_ALLOW_TARGETS=" + address}}}.start(t)
	organization := unique("org")
	service, customer := h.service(stack.Gateway, organization), h.customer(t, organization, "ai", "write")
	service.post(t, serversPath, object{
		"server_id": "everything", "url": "http://" + address + "/", "price_per_call_cents": 1.5, "registered_by": "ada", "features": []string{"tools", "prompts"},
	}).want(t, http.StatusCreated)
	service.post(t, trustPath, object{"server_id": "everything", "level": "COMMUNITY", "assigned_by": "ada"}).want(t, http.StatusCreated)
	waitFor(t, waitTimeout, "the review of the server", func() error {
		digest := gjson.GetBytes(service.get(t, serversPath+"/everything").want(t, http.StatusOK).body, "listing_digest").Str
		if digest == "" {
			return errors.New("it is not listed")
		}
		service.post(t, serversPath+"/everything/review", object{"listing_digest": digest, "decision": "approve", "reviewed_by": "bob"}).want(t, http.StatusOK)
		return nil
	})

	direct := everythingClient(t, "http://"+address+"/", nil)
	through := everythingClient(t, customer.base+toolsPath+"/everything", customer.header)
	var tools []string
	list, err := through.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if strings.HasPrefix(tool.Name, "test_input_required_result_") {
			tools = append(tools, tool.Name)
		}
	}
	if len(tools) < 8 {
		t.Fatalf("listed %v", tools)
	}
	for _, name := range tools {
		if want, got := direct.call(t, name), through.call(t, name); got != want || got == "" {
			t.Errorf("%s: %q, without the gateway %q", name, got, want)
		}
	}
	params := &mcp.GetPromptParams{Name: "test_input_required_result_prompt"}
	want, err := direct.session.GetPrompt(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	got, err := through.session.GetPrompt(t.Context(), params)
	if err != nil || fmt.Sprint(textOf(got.Messages[0].Content)) != textOf(want.Messages[0].Content) {
		t.Errorf("a prompt: %+v %v", got, err)
	}
	for i := range direct.asked {
		if asked := through.asked[i]; asked != "everything: "+direct.asked[i] {
			t.Errorf("asked %q, without the gateway %q", asked, direct.asked[i])
		}
	}
	if len(through.asked) != len(direct.asked) {
		t.Errorf("asked %q, without the gateway %q", through.asked, direct.asked)
	}
	h.roundRows(t, organization, len(tools)+1)
	statesAreBound(t, customer)
}

// statesAreBound checks that a state that was tampered with, or is another caller's, is of no use.
func statesAreBound(t *testing.T, customer client) {
	t.Helper()
	const path = toolsPath + "/everything"
	params := func(state string) object {
		p := object{
			"name": "test_input_required_result_tampered_state",
			"_meta": object{
				"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": object{"elicitation": object{}},
			},
		}
		if state != "" {
			p["requestState"], p["inputResponses"] = state, object{"confirm": object{"action": "accept", "content": object{"ok": true}}}
		}
		return p
	}
	first, failure := customer.rpc(t, path, "tools/call", params(""))
	state := first.Get("requestState").Str
	if first.Get("resultType").Str != "input_required" || state == "" {
		t.Fatalf("%s %s", first.Raw, failure.Raw)
	}
	refused := func(c client, state string) {
		t.Helper()
		a := c.with("MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "test_input_required_result_tampered_state",
			"Accept", "application/json, text/event-stream").post(t, path, object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params(state)}).want(t, http.StatusBadRequest)
		if gjson.GetBytes(a.body, "error.code").Int() != -32602 {
			t.Errorf("%s", a.body)
		}
	}
	refused(customer, state+"-TAMPERED")
	refused(customer.with("X-User-Id", "mallory"), state)
	if last, failure := customer.rpc(t, path, "tools/call", params(state)); !strings.Contains(last.Raw, "state-ok") {
		t.Errorf("%s %s", last.Raw, failure.Raw)
	}
	refused(customer, state)
}

// roundRows waits until the ledger has the rows of calls: each has one with the price, and those of later rounds are free
// and have the id of the first request.
func (h *harness) roundRows(t *testing.T, organization string, calls int) {
	t.Helper()
	waitFor(t, waitTimeout, "the rows of the calls", func() error {
		var page struct {
			Records []struct {
				RequestID string  `json:"request_id"`
				Cost      float64 `json:"cost_cents"`
			} `json:"records"`
		}
		h.operator(stack.Gateway).get(t, "/v1/usage?limit=200&organization_id="+organization).into(t, http.StatusOK, &page)
		costs := make(map[string]float64)
		for _, r := range page.Records {
			costs[r.RequestID] += r.Cost
		}
		for id, cost := range costs {
			if cost != 1.5 {
				return fmt.Errorf("%v for the request %s", cost, id)
			}
		}
		if len(costs) != calls || len(page.Records) < 2*calls {
			return fmt.Errorf("%d rows of %d calls, want %d", len(page.Records), len(costs), calls)
		}
		return nil
	})
}

// statelessEverything starts the SDK's everything server, without sessions, and returns its address.
func statelessEverything(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "everything")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	server := exec.CommandContext(t.Context(), program, "-http", address)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	waitFor(t, waitTimeout, "the everything server", func() error {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		return err
	})
	return address
}

// asking is a client of the SDK that answers whatever it is asked.
type asking struct {
	session *mcp.ClientSession
	asked   []string // the messages
}

// withHeader adds headers to requests.
type withHeader struct {
	header http.Header
	next   http.RoundTripper
}

func (w withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, w.header)
	return w.next.RoundTrip(r)
}

func everythingClient(t *testing.T, url string, header http.Header) *asking {
	t.Helper()
	a := &asking{}
	of := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			a.asked = append(a.asked, r.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: contentOf(r.Params.RequestedSchema)}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "Paris"}}, nil
		},
	})
	of.AddRoots(&mcp.Root{URI: "file:///work", Name: "work"})
	session, err := of.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: withHeader{header, httpClient.Transport}}, MaxRetries: -1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	a.session = session
	return a
}

// contentOf fills a form in.
func contentOf(schema any) map[string]any {
	content := make(map[string]any)
	properties, _ := schema.(map[string]any)["properties"].(map[string]any)
	for name, kind := range properties {
		content[name] = name + " of ann"
		if of, _ := kind.(map[string]any); of["type"] == "boolean" {
			content[name] = true
		}
	}
	return content
}

// call calls a tool and returns the texts of its answer, or its error.
func (a *asking) call(t *testing.T, name string) string {
	t.Helper()
	result, err := a.session.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Sprint(refused.Code)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var texts []string
	for _, content := range result.Content {
		texts = append(texts, textOf(content))
	}
	slices.Sort(texts)
	return strings.Join(texts, "\n")
}

func textOf(content mcp.Content) string {
	if text, ok := content.(*mcp.TextContent); ok {
		return text.Text
	}
	return ""
}
