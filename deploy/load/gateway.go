package main

import (
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
)

// gatewayPlan configures a measurement of the gateway.
type gatewayPlan struct {
	round  time.Duration
	rounds int
	rate   float64
	pieces int
	pause  time.Duration
	soak   time.Duration
	keep   bool
	bin    string
	ways   []string
}

// gatewayWays lists the ways through the gateway; the provider itself and the floor are always measured too.
var gatewayWays = []string{"async", "openai", "committed", "edge"}

func (p gatewayPlan) wants(way string) bool { return slices.Contains(p.ways, way) }

func parseGateway(args []string) (gatewayPlan, error) {
	var plan gatewayPlan
	set := flag.NewFlagSet("load gateway", flag.ContinueOnError)
	set.DurationVar(&plan.round, "round", 3*time.Second, "time of each measurement")
	set.IntVar(&plan.rounds, "rounds", 3, "repeats, of which the median counts; 0 only watches memory")
	set.Float64Var(&plan.rate, "rate", 200, "requests per second of the open loop")
	set.IntVar(&plan.pieces, "pieces", 50, "pieces of a stream")
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
	// stream is the same way for a streamed answer.
	stream *client.Request
	// pids are the processes whose CPU time counts, without provider and client.
	pids []int
}

// gatewayRig is all that runs while the gateway is measured.
type gatewayRig struct {
	dir           string
	vendor, relay *helper
	// async and committed differ in when a ledger row is stored.
	async, committed *stack.Stack
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

// openGatewayRig starts the provider, the relay, and a stack of two gateways, one
// that commits each ledger row before its answer is complete and one that
// doesn't wait.
func openGatewayRig(ctx context.Context, plan gatewayPlan) (_ *gatewayRig, err error) {
	r := &gatewayRig{}
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
	providers := filepath.Join(r.dir, "providers.json")
	text := fmt.Sprintf(`{"providers":[{"name":"load","dialect":"openai","base_url":"%s/v1","models":[
		{"name":"load","input_per_mtok_usd":"1","output_per_mtok_usd":"2"}]}]}`, r.vendor.url)
	if err = os.WriteFile(providers, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if r.async, err = r.startStack(ctx, plan, "async", providers, "GATEWAY_LEDGER_MODE=async"); err != nil {
		return nil, err
	}
	if plan.wants("committed") {
		r.committed, err = r.startStack(ctx, plan, "committed", providers)
	}
	return r, err
}

func (r *gatewayRig) startStack(ctx context.Context, plan gatewayPlan, name, providers string, more ...string) (*stack.Stack, error) {
	settings := append([]string{"GATEWAY_EXTRA_PROVIDERS_FILE=" + providers}, more...)
	return stack.Start(ctx, stack.Options{
		State: filepath.Join(r.dir, name), Bin: plan.bin, Durable: true, BuildFlags: asShipped, Env: map[stack.Service][]string{stack.Gateway: settings},
		Progress: func(line string) { fmt.Fprintln(os.Stderr, line) },
	})
}

func (r *gatewayRig) close(ctx context.Context) error {
	var errs []error
	for _, s := range []*stack.Stack{r.async, r.committed} {
		if s != nil {
			errs = append(errs, s.Stop(ctx))
		}
	}
	for _, h := range []*helper{r.relay, r.vendor} {
		if h != nil {
			h.Kill()
		}
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...) //nolint:gosec // a folder of our own
}

// question is the text of the requests of all APIs, whose bodies have about the same size.
var question = strings.Repeat("How long is the train to the coast, and how many carriages does it have? ", 10)

func openAIBody(stream bool) []byte {
	return fmt.Appendf(nil, `{"model":"load","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":%q}],"max_tokens":500,"stream":%t}`,
		question, stream)
}

func llmBody(stream bool) []byte {
	return fmt.Appendf(nil, `{"model":"load/load","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":%q}],"max_tokens":500,"stream":%t}`,
		question, stream)
}

// way is a target before its requests are prepared; flag is its name in -ways, empty for what is always measured.
type way struct {
	flag, name, url string
	header          http.Header
	body            func(stream bool) []byte
	pids            []int
}

// targets returns the ways to measure; the first is the provider itself, the second the floor.
func (r *gatewayRig) targets(ctx context.Context, plan gatewayPlan) ([]target, error) {
	key, err := r.async.CreateKey(ctx, stack.Key{Organization: stack.Organization, Product: "ai", Permission: "read", Name: "load"})
	if err != nil {
		return nil, err
	}
	gateway, err := r.async.PID(string(stack.Gateway))
	if err != nil {
		return nil, err
	}
	edge, err := r.async.PID(string(stack.Edge))
	if err != nil {
		return nil, err
	}
	customer := http.Header{"Authorization": {"Bearer " + key}}
	const completions = "/v1/chat/completions"
	at, service := r.async.URL, firstParty(r.async)
	ways := []way{
		{"", "provider itself", r.vendor.url + completions, nil, openAIBody, nil},
		{"", "thin relay (floor)", r.relay.url + completions, nil, openAIBody, []int{r.relay.PID()}},
		{"async", "gateway /v1/llm/chat", at("gateway") + "/v1/llm/chat", service, llmBody, []int{gateway}},
		{"openai", "gateway openai face", at("gateway") + completions, service, openAIBody, []int{gateway}},
		{"edge", "edge + gateway", at("edge") + "/product/v1/ai/chat", customer, llmBody, []int{edge, gateway}},
	}
	if r.committed != nil {
		pid, err := r.committed.PID(string(stack.Gateway))
		if err != nil {
			return nil, err
		}
		ways = append(ways, way{"committed", "gateway, row committed", r.committed.URL("gateway") + "/v1/llm/chat", firstParty(r.committed), llmBody, []int{pid}})
	}
	ways = slices.DeleteFunc(ways, func(w way) bool { return w.flag != "" && !plan.wants(w.flag) })
	return prepare(ways)
}

func prepare(ways []way) ([]target, error) {
	all := make([]target, 0, len(ways))
	for _, w := range ways {
		t := target{name: w.name, pids: w.pids}
		var errs [2]error
		t.chat, errs[0] = client.NewRequest(w.url, w.header, w.body(false))
		t.stream, errs[1] = client.NewRequest(w.url, w.header, w.body(true))
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
		if a.Status != http.StatusOK || got != want || !strings.Contains(string(a.Body), "[DONE]") {
			return fmt.Errorf("status %d, %d of %d pieces", a.Status, got, want)
		}
		return nil
	}
}
