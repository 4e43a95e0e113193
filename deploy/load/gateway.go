package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/fakes/plain"
	"switchyard.dev/deploy/load/client"
	"switchyard.dev/deploy/load/proc"
)

// gatewayPlan configures a measurement of the gateway.
type gatewayPlan struct {
	round  time.Duration
	rounds int
	pieces int
	pause  time.Duration
	soak   time.Duration
	keep   bool
	bin    string
	build  []string // more flags of the build
	ways   []string
}

// gatewayWays lists the ways through the gateway: on the contract's face, without waiting for a disk; on the OpenAI face,
// in all modes of the ledger; the same through the edge; and on the Anthropic and the Responses face, translated, without
// waiting. The
// provider itself and the floors, one relay and two in a row, are always measured too.
var gatewayWays = []string{"contract", "translated", "responses", "async", "synced", "committed", "edge-async", "edge-synced", "edge-committed"}

// modes are what the gateway's answers wait for, by the names of its setting.
var modes = []string{"async", "synced", "committed"}

func (p gatewayPlan) wants(way string) bool { return slices.Contains(p.ways, way) }

// wantsMode reports whether any way goes through the stack of a mode.
func (p gatewayPlan) wantsMode(mode string) bool {
	return p.wants(mode) || p.wants("edge-"+mode) || mode == "async" && (p.wants("contract") || p.wants("translated") || p.wants("responses"))
}

func parseGateway(args []string) (gatewayPlan, error) {
	var plan gatewayPlan
	set := flag.NewFlagSet("load gateway", flag.ContinueOnError)
	set.DurationVar(&plan.round, "round", 3*time.Second, "time of each measurement")
	set.IntVar(&plan.rounds, "rounds", 3, "repeats, of which the median counts; 0 only watches memory")
	set.IntVar(&plan.pieces, "pieces", 100, "pieces of a stream")
	set.DurationVar(&plan.pause, "pause", 20*time.Millisecond, "time between the pieces of a stream")
	set.DurationVar(&plan.soak, "soak", 30*time.Second, "time under load in which memory is watched")
	set.StringVar(&plan.bin, "bin", "", "folder with the services' binaries; empty builds them")
	set.BoolVar(&plan.keep, "keep", false, "keep the report in deploy/load/results")
	ways := set.String("ways", strings.Join(gatewayWays, ","), "ways to measure beside the provider and the floor; memory is that of the first")
	if err := set.Parse(args); err != nil {
		return plan, err
	}
	plan.ways = strings.Split(*ways, ",")
	for _, way := range plan.ways {
		if !slices.Contains(gatewayWays, way) {
			return plan, fmt.Errorf("-ways: %q is none of %s", way, strings.Join(gatewayWays, ", "))
		}
	}
	return plan, nil
}

// target is one way to the provider.
type target struct {
	name string
	chat *client.Request
	// stream is the same way for a streamed answer, burst for one without pauses.
	stream, burst *client.Request
	// pids are the processes, at most two, whose CPU time counts, without provider and client. stores are those of Postgres.
	pids   []int
	stores func() []int
	// database is the URL of the stack's, "" for the provider and the floors.
	database string
}

// gatewayRig is all that runs while the gateway is measured.
type gatewayRig struct {
	dir           string
	vendor, relay *helper
	// front relays to relay.
	front *helper
	// stacks has one for each mode that is wanted, by its name.
	stacks map[string]*stack.Stack
}

func runGateway(ctx context.Context, args []string) (err error) {
	plan, err := parseGateway(args)
	if err != nil {
		return err
	}
	r, err := openGatewayRig(ctx, plan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close(context.WithoutCancel(ctx))) }()
	targets, err := r.targets(ctx, plan)
	if err != nil {
		return err
	}
	report, err := measureGateway(ctx, plan, targets)
	if err != nil {
		return err
	}
	fmt.Print(report)
	if plan.keep {
		return keep("gateway", report)
	}
	return nil
}

// openGatewayRig starts the provider, the relays, and a stack for each mode.
func openGatewayRig(ctx context.Context, plan gatewayPlan) (_ *gatewayRig, err error) {
	r := &gatewayRig{stacks: make(map[string]*stack.Stack)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close(context.WithoutCancel(ctx)))
		}
	}()
	if r.dir, err = openDir(); err != nil {
		return nil, err
	}
	if r.vendor, err = startHelper(ctx, r.dir, "provider", "-pieces", strconv.Itoa(plan.pieces), "-pause", plan.pause.String()); err != nil {
		return nil, err
	}
	if r.relay, err = startHelper(ctx, r.dir, "relay", "-relay", r.vendor.url); err != nil {
		return nil, err
	}
	if r.front, err = startHelper(ctx, r.dir, "front", "-relay", r.relay.url); err != nil {
		return nil, err
	}
	providers := filepath.Join(r.dir, "providers.json")
	text := fmt.Sprintf(`{"providers":[{"name":"load","dialect":"openai","base_url":"%s/v1","models":[
		{"name":"load","input_per_mtok_usd":"1","output_per_mtok_usd":"2"},
		{"name":"burst","input_per_mtok_usd":"1","output_per_mtok_usd":"2"}]}]}`, r.vendor.url)
	if err = os.WriteFile(providers, []byte(text), 0o600); err != nil {
		return nil, err
	}
	for _, mode := range modes {
		if !plan.wantsMode(mode) {
			continue
		}
		r.stacks[mode], err = stack.Start(ctx, stack.Options{
			State: filepath.Join(r.dir, mode), Bin: plan.bin, Durable: true, BuildFlags: slices.Concat(asShipped, plan.build),
			Env: map[stack.Service][]string{
				stack.Gateway: {"GATEWAY_EXTRA_PROVIDERS_FILE=" + providers, "GATEWAY_LEDGER_MODE=" + mode},
			},
			Progress: func(line string) { fmt.Fprintln(os.Stderr, line) },
		})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *gatewayRig) close(ctx context.Context) error {
	var errs []error
	for _, s := range r.stacks {
		errs = append(errs, s.Stop(ctx))
	}
	for _, h := range []*helper{r.front, r.relay, r.vendor} {
		if h != nil {
			h.Kill()
		}
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// question is the text of the requests of all APIs, whose bodies have about the same size.
var question = strings.Repeat("How long is the train to the coast, and how many carriages does it have? ", 10)

func openAIBody(model string, stream bool) []byte {
	return fmt.Appendf(nil, `{"model":"%s","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":%q}],"max_tokens":500,"stream":%t}`,
		model, question, stream)
}

func anthropicBody(model string, stream bool) []byte {
	return fmt.Appendf(nil, `{"model":"%s","system":"Be brief.","messages":[{"role":"user","content":%q}],"max_tokens":500,"stream":%t}`,
		model, question, stream)
}

func responsesBody(model string, stream bool) []byte {
	return fmt.Appendf(nil, `{"model":"%s","instructions":"Be brief.","input":%q,"max_output_tokens":500,"store":false,"stream":%t}`,
		model, question, stream)
}

func contractBody(model string, stream bool) []byte { return openAIBody("load/"+model, stream) }

// way is a target before its requests are prepared; flag is its name in -ways, empty for what is always measured.
type way struct {
	flag, name, url string
	header          http.Header
	body            func(model string, stream bool) []byte
	pids            []int
	stores          func() []int
	database        string
}

// targets returns the ways to measure; the first is the provider itself, the next two are the floors.
func (r *gatewayRig) targets(ctx context.Context, plan gatewayPlan) ([]target, error) {
	const completions = "/v1/chat/completions"
	relay, front := r.relay.PID(), r.front.PID()
	ways := []way{
		{"", "provider itself", r.vendor.url + completions, nil, openAIBody, nil, nil, ""},
		{"", "thin relay (floor)", r.relay.url + completions, nil, openAIBody, []int{relay}, nil, ""},
		{"", "two relays in a row (floor)", r.front.url + completions, nil, openAIBody, []int{front, relay}, nil, ""},
	}
	for _, mode := range modes {
		if r.stacks[mode] == nil {
			continue
		}
		more, err := stackWays(ctx, r.stacks[mode], mode)
		if err != nil {
			return nil, err
		}
		ways = append(ways, more...)
	}
	ways = slices.DeleteFunc(ways, func(w way) bool { return w.flag != "" && !plan.wants(w.flag) })
	return prepare(ways)
}

// stackWays returns the ways through a stack whose ledger has the mode.
func stackWays(ctx context.Context, s *stack.Stack, mode string) ([]way, error) {
	const completions = "/v1/chat/completions"
	key, err := s.CreateKey(ctx, stack.Key{Organization: stack.Organization, Product: "ai", Permission: "read", Name: "load"})
	if err != nil {
		return nil, err
	}
	var pids [3]int
	for i, name := range []string{string(stack.Gateway), string(stack.Edge), "postgres"} {
		if pids[i], err = s.PID(name); err != nil {
			return nil, err
		}
	}
	gateway, edge, server := pids[0], pids[1], pids[2]
	stores := func() []int { return append(proc.Children(server), server) }
	database := s.DatabaseURL()
	service, customer := firstParty(s), http.Header{"Authorization": {"Bearer " + key}}
	ways := []way{
		{mode, "gateway, OpenAI face, " + mode, s.URL("gateway") + completions, service, openAIBody, []int{gateway}, stores, database},
		{"edge-" + mode, "edge + OpenAI face, " + mode, s.URL("edge") + "/product/v1/ai/openai" + completions, customer, openAIBody, []int{edge, gateway}, stores, database},
	}
	if mode == "async" {
		ways = append([]way{
			{"contract", "gateway, contract, async", s.URL("gateway") + "/v1/llm/chat", service, contractBody, []int{gateway}, stores, database},
			{"translated", "gateway, Anthropic face, async", s.URL("gateway") + "/v1/messages", service, anthropicBody, []int{gateway}, stores, database},
			{"responses", "gateway, Responses face, async", s.URL("gateway") + "/v1/responses", service, responsesBody, []int{gateway}, stores, database},
		}, ways...)
	}
	return ways, nil
}

func prepare(ways []way) ([]target, error) {
	all := make([]target, 0, len(ways))
	for _, w := range ways {
		t := target{name: w.name, pids: w.pids, stores: w.stores, database: w.database}
		var errs [3]error
		t.chat, errs[0] = client.NewRequest(w.url, w.header, w.body("load", false))
		t.stream, errs[1] = client.NewRequest(w.url, w.header, w.body("load", true))
		t.burst, errs[2] = client.NewRequest(w.url, w.header, w.body(plain.Burst, true))
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// firstParty returns the headers of a service that calls a stack.
func firstParty(s *stack.Stack) http.Header {
	return http.Header{"Authorization": {"Bearer " + s.Secrets().Service}, "X-Organization-Id": {stack.Organization}}
}

// wantText returns a check that a whole stream holds the text, piece by piece.
func wantText(pieces int) func(client.Answer) error {
	want := strings.Count(plain.Text(pieces), "carriage ")
	return func(a client.Answer) error {
		got := strings.Count(string(a.Body), `"carriage "`)
		ended := bytes.Contains(a.Body, []byte("[DONE]")) || bytes.Contains(a.Body, []byte("message_stop")) || bytes.Contains(a.Body, []byte("response.completed"))
		if a.Status != http.StatusOK || got != want || !ended {
			return fmt.Errorf("status %d, %d of %d pieces", a.Status, got, want)
		}
		return nil
	}
}
