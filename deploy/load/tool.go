package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/load/client"
	"switchyard.dev/deploy/load/drive"
	"switchyard.dev/deploy/load/proc"
)

// toolPlan configures a measurement of calls of tools.
type toolPlan struct {
	round       time.Duration
	rounds      int
	connections int
	rate        float64 // calls per second of the open loop
	bin         string
	keep        bool
}

// toolRig is all that runs while calls of tools are measured: a server made with the protocol's SDK, a reverse proxy, and a stack
// for each mode of the ledger in which its row is durable before the answer.
type toolRig struct {
	dir           string
	server, proxy *helper
	stacks        map[string]*stack.Stack
}

// durable are the modes of the ledger whose answers wait for a disk.
var durable = []string{"synced", "committed"}

// toolServer is the id of the measured server.
const toolServer = "load"

func runTools(ctx context.Context, args []string) (err error) {
	var plan toolPlan
	set := flag.NewFlagSet("load tools", flag.ContinueOnError)
	set.DurationVar(&plan.round, "round", 3*time.Second, "time of each measurement")
	set.IntVar(&plan.rounds, "rounds", 5, "repeats, of which the median counts")
	set.IntVar(&plan.connections, "connections", 16, "connections of the closed loop")
	set.Float64Var(&plan.rate, "rate", 200, "calls per second of the open loop")
	set.StringVar(&plan.bin, "bin", "", "folder with the services' binaries; empty builds them")
	set.BoolVar(&plan.keep, "keep", false, "keep the report in deploy/load/results")
	if err := set.Parse(args); err != nil {
		return err
	}
	r := &toolRig{stacks: make(map[string]*stack.Stack)}
	defer func() { err = errors.Join(err, r.close(context.WithoutCancel(ctx))) }()
	if err := r.open(ctx, plan); err != nil {
		return err
	}
	targets, err := r.targets(ctx)
	if err != nil {
		return err
	}
	report, err := measureTools(ctx, plan, targets)
	if err != nil {
		return err
	}
	fmt.Print(report)
	if plan.keep {
		return keep("tools", report)
	}
	return nil
}

func (r *toolRig) open(ctx context.Context, plan toolPlan) (err error) {
	if r.dir, err = openDir(); err != nil {
		return err
	}
	if r.server, err = startHelper(ctx, r.dir, "server", "-tools"); err != nil {
		return err
	}
	if r.proxy, err = startHelper(ctx, r.dir, "proxy", "-reverse", r.server.url); err != nil {
		return err
	}
	for _, mode := range durable {
		s, err := stack.Start(ctx, stack.Options{
			State: filepath.Join(r.dir, mode), Bin: plan.bin, Durable: true, BuildFlags: asShipped,
			Env: map[stack.Service][]string{stack.Gateway: {
				"GATEWAY_LEDGER_MODE=" + mode, "GATEWAY_ALLOW_TARGETS=" + strings.TrimPrefix(r.server.url, "http://"),
			}},
			Progress: func(line string) { fmt.Fprintln(os.Stderr, line) },
		})
		if err != nil {
			return err
		}
		r.stacks[mode] = s
		if err := r.register(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *toolRig) close(ctx context.Context) error {
	var errs []error
	for _, s := range r.stacks {
		errs = append(errs, s.Stop(ctx))
	}
	for _, h := range []*helper{r.proxy, r.server} {
		if h != nil {
			h.Kill()
		}
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// register registers the server at a stack's gateway, and has its definitions reviewed.
func (r *toolRig) register(ctx context.Context, s *stack.Stack) error {
	var server struct {
		Listing string `json:"listing_digest"`
	}
	registration := fmt.Sprintf(`{"server_id":%q,"url":%q,"price_per_call_cents":0.1,"registered_by":"ada"}`, toolServer, r.server.url)
	if err := ask(ctx, s, http.MethodPost, "/v1/mcp/servers", registration, &server); err != nil {
		return err
	}
	for server.Listing == "" {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := ask(ctx, s, http.MethodGet, "/v1/mcp/servers/"+toolServer, "", &server); err != nil {
			return err
		}
	}
	trust := fmt.Sprintf(`{"server_id":%q,"level":"COMMUNITY","assigned_by":"ada"}`, toolServer)
	review := fmt.Sprintf(`{"listing_digest":%q,"decision":"approve","reviewed_by":"bob"}`, server.Listing)
	return errors.Join(
		ask(ctx, s, http.MethodPost, "/v1/mcp/trust", trust, nil),
		ask(ctx, s, http.MethodPost, "/v1/mcp/servers/"+toolServer+"/review", review, nil),
	)
}

// targets returns the ways to measure: the server itself, the reverse proxy, and those through the gateways.
func (r *toolRig) targets(ctx context.Context) ([]target, error) {
	type way struct {
		name, url string
		header    http.Header
		pids      []int
		stores    func() []int
	}
	ways := []way{
		{"the SDK's stateless handler itself", r.server.url, http.Header{}, []int{r.server.PID()}, nil},
		{"httputil.ReverseProxy", r.proxy.url, http.Header{}, []int{r.proxy.PID()}, nil},
	}
	for _, mode := range durable {
		s := r.stacks[mode]
		gateway, err := s.PID(string(stack.Gateway))
		if err != nil {
			return nil, err
		}
		edge, err := s.PID(string(stack.Edge))
		if err != nil {
			return nil, err
		}
		postgres, err := s.PID("postgres")
		if err != nil {
			return nil, err
		}
		key, err := s.CreateKey(ctx, stack.Key{Organization: stack.Organization, Product: "ai", Permission: "write", Name: "load"})
		if err != nil {
			return nil, err
		}
		stores := func() []int { return append(proc.Children(postgres), postgres) }
		ways = append(ways,
			way{"gateway, " + mode, s.URL(string(stack.Gateway)) + "/mcp/" + toolServer, firstParty(s), []int{gateway}, stores},
			way{"edge + gateway, " + mode, s.URL(string(stack.Edge)) + "/product/v1/mcp/" + toolServer, http.Header{"Authorization": {"Bearer " + key}}, []int{edge, gateway}, stores})
	}
	all := make([]target, 0, len(ways))
	for _, w := range ways {
		for name, value := range map[string]string{
			"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
		} {
			w.header.Set(name, value)
		}
		request, err := client.NewRequest(w.url, w.header, toolCall())
		if err != nil {
			return nil, err
		}
		all = append(all, target{name: w.name, chat: request, pids: w.pids, behind: behind{stores: w.stores}})
	}
	return all, nil
}

// toolCall returns the body of the measured call.
func toolCall() []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":%q},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, question)
}

// echoes checks that an answer is that of the tool.
func echoes(a client.Answer) error {
	if a.Status != http.StatusOK || !bytes.Contains(a.Body, []byte(question)) {
		return fmt.Errorf("status %d: %.300s", a.Status, a.Body)
	}
	return nil
}

// newToolServer returns a server of one tool, which returns its argument, with the handler of the protocol's SDK.
func newToolServer() http.Handler {
	type text struct {
		Text string `json:"text"`
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "load", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "returns its argument"},
		func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// toolFigures holds the figures of one way. The open loop has p50 and p99.
type toolFigures struct {
	perSecond float64
	cpu       [2]time.Duration
	store     time.Duration
	p50, p99  time.Duration
	failed    int
}

// measureTools measures each way in turn, round by round, so that a busy moment of the machine affects all of them.
func measureTools(ctx context.Context, plan toolPlan, targets []target) (string, error) {
	rounds := make([][]toolFigures, len(targets))
	for round := range plan.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, plan.rounds)
		for i, t := range targets {
			f, err := measureTool(ctx, plan, t)
			if err != nil {
				return "", fmt.Errorf("%s: %w", t.name, err)
			}
			rounds[i] = append(rounds[i], f)
		}
	}
	return toolTable(plan, targets, rounds), nil
}

func measureTool(ctx context.Context, plan toolPlan, t target) (f toolFigures, err error) {
	cpu, store := t.used(), t.stored()
	closed, err := drive.Run(ctx, drive.Load{Request: t.chat, Connections: plan.connections, Time: plan.round, Check: echoes})
	if err != nil {
		return f, err
	}
	done := time.Duration(max(closed.Done(), 1))
	for i, now := range t.used() {
		f.cpu[i] = (now - cpu[i]) / done
	}
	f.perSecond, f.store = closed.PerSecond(), (t.stored()-store)/done
	open, err := drive.Run(ctx, drive.Load{Request: t.chat, Connections: plan.connections, Rate: plan.rate, Time: plan.round, Check: echoes})
	if err != nil {
		return f, err
	}
	f.p50, f.p99 = quantiles(open.Latency)
	f.failed = closed.Failed + open.Failed
	if failure := errors.Join(closed.Failure, open.Failure); failure != nil {
		fmt.Fprintln(os.Stderr, "  failed:", t.name, failure)
	}
	return f, nil
}

// toolTable renders the medians, beside the server itself.
func toolTable(plan toolPlan, targets []target, rounds [][]toolFigures) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s; medians of %d rounds of %s; %d connections; latency at %.0f/s; %s\n\n",
		machine(), plan.rounds, plan.round, plan.connections, plan.rate, measureSyncs())
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	printf(w, "way\trps\tCPU/call\tbeside the SDK's handler\tPostgres\tp50/p99\tadded p50\tfailed\t\n")
	var own toolFigures
	for i, t := range targets {
		f := middleTool(rounds[i])
		if i == 0 {
			own = f
		}
		printf(w, "%s\t%.0f\t%s µs\t%.2fx\t%d µs\t%s\t%s\t%d\t\n", t.name, f.perSecond, byProcess(f.cpu, t.pids),
			ratio(f.cpu[0]+f.cpu[1], own.cpu[0]), f.store.Microseconds(), millis(f.p50, f.p99), micros(f.p50-own.p50), f.failed)
	}
	_ = w.Flush()
	return out.String()
}

// middleTool returns the round whose processor time is in the middle, with the median latencies and the failures of all.
func middleTool(rounds []toolFigures) toolFigures {
	var p50, p99 []time.Duration
	failed := 0
	for _, f := range rounds {
		p50, p99, failed = append(p50, f.p50), append(p99, f.p99), failed+f.failed
	}
	slices.SortFunc(rounds, func(a, b toolFigures) int { return cmp.Compare(a.cpu[0]+a.cpu[1], b.cpu[0]+b.cpu[1]) })
	slices.Sort(p50)
	slices.Sort(p99)
	middle := rounds[len(rounds)/2]
	middle.p50, middle.p99, middle.failed = p50[len(p50)/2], p99[len(p99)/2], failed
	return middle
}
