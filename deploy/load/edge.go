package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/load/client"
	"switchyard.dev/deploy/load/drive"
)

// edgePlan configures a measurement of the edge.
type edgePlan struct {
	round  time.Duration
	rounds int
	bin    string // a folder of built services
	// connections is how many of them are in use at a time.
	connections int
	keep        bool
}

// edgeRig is all that runs while the edge is measured: a service that costs
// nearly nothing, and what may stand before it.
type edgeRig struct {
	dir                    string
	vendor, relay, reverse *helper
	stack                  *stack.Stack
}

func runEdge(ctx context.Context, args []string) (err error) {
	var plan edgePlan
	set := flag.NewFlagSet("load edge", flag.ContinueOnError)
	set.DurationVar(&plan.round, "round", 2*time.Second, "time of each measurement")
	set.IntVar(&plan.rounds, "rounds", 5, "repeats, of which the median counts")
	set.IntVar(&plan.connections, "connections", 64, "connections of the closed loop")
	set.StringVar(&plan.bin, "bin", "", "folder with the services' binaries; empty builds them")
	set.BoolVar(&plan.keep, "keep", false, "keep the report in deploy/load/results")
	if err := set.Parse(args); err != nil {
		return err
	}
	r := &edgeRig{}
	defer func() { err = errors.Join(err, r.close(context.WithoutCancel(ctx))) }()
	if err := r.open(ctx, plan.bin); err != nil {
		return err
	}
	targets, err := r.targets(ctx)
	if err != nil {
		return err
	}
	report, err := measureEdge(ctx, plan, targets)
	if err != nil {
		return err
	}
	fmt.Print(report)
	if plan.keep {
		return keep("edge", report)
	}
	return nil
}

func (r *edgeRig) open(ctx context.Context, bin string) (err error) {
	if r.dir, err = openDir(); err != nil {
		return err
	}
	if r.vendor, err = startHelper(ctx, r.dir, "provider"); err != nil {
		return err
	}
	if r.relay, err = startHelper(ctx, r.dir, "relay", "-relay", r.vendor.url); err != nil {
		return err
	}
	if r.reverse, err = startHelper(ctx, r.dir, "reverse", "-reverse", r.vendor.url); err != nil {
		return err
	}
	r.stack, err = stack.Start(ctx, stack.Options{
		State: r.dir + "/state", Durable: true, Bin: bin, BuildFlags: asShipped, Env: map[stack.Service][]string{stack.Edge: {"EDGE_GATEWAY_URL=" + r.vendor.url}},
		Progress: func(line string) { fmt.Fprintln(os.Stderr, line) },
	})
	return err
}

func (r *edgeRig) close(ctx context.Context) error {
	var errs []error
	if r.stack != nil {
		errs = append(errs, r.stack.Stop(ctx))
	}
	for _, h := range []*helper{r.relay, r.reverse, r.vendor} {
		if h != nil {
			h.Kill()
		}
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// targets returns the ways to measure; the first is the service itself, the second the floor.
func (r *edgeRig) targets(ctx context.Context) ([]target, error) {
	edge, err := r.stack.PID(string(stack.Edge))
	if err != nil {
		return nil, err
	}
	free, err := r.key(ctx, "load-free", "")
	if err != nil {
		return nil, err
	}
	bounded, err := r.key(ctx, "load-bounded", `,"rate_limit":{"requests":1000000,"window_seconds":1}`)
	if err != nil {
		return nil, err
	}
	at := r.stack.URL(string(stack.Edge))
	var all []target
	for _, way := range []struct {
		name, url, key string
		pids           []int
	}{
		{"service itself", r.vendor.url + "/v1/llm/chat", "", nil},
		{"thin relay (floor)", r.relay.url + "/v1/llm/chat", "none", []int{r.relay.PID()}},
		{"httputil.ReverseProxy", r.reverse.url + "/v1/llm/chat", "none", []int{r.reverse.PID()}},
		{"edge, not counted", at + "/product/v1/ai/anthropic/v1/messages/count_tokens", free, []int{edge}},
		{"edge", at + "/product/v1/ai/chat", free, []int{edge}},
		{"edge, rate limited", at + "/product/v1/ai/chat", bounded, []int{edge}},
	} {
		header := http.Header{}
		if way.key != "" {
			header.Set("Authorization", "Bearer "+way.key)
		}
		request, err := client.NewRequest(way.url, header, contractBody("load", false))
		if err != nil {
			return nil, err
		}
		all = append(all, target{name: way.name, chat: request, pids: way.pids})
	}
	return all, nil
}

// key creates a product key over the operator API.
func (r *edgeRig) key(ctx context.Context, organization, more string) (string, error) {
	body := fmt.Sprintf(`{"organization_id":%q,"product":"ai","permissions":["read"]%s}`, organization, more)
	var made struct{ Key string }
	if err := operate(ctx, r.stack, http.MethodPost, "/admin/v1/keys", body, &made); err != nil {
		return "", err
	}
	if made.Key == "" {
		return "", errors.New("POST /admin/v1/keys: the answer has no key")
	}
	return made.Key, nil
}

// edgeFigures holds the figures of one way.
type edgeFigures struct {
	perSecond float64
	cpu       time.Duration
	p50, p99  time.Duration
	failed    int
}

// measureEdge measures each way in turn, round by round, so that a busy moment of the machine affects all of them.
func measureEdge(ctx context.Context, plan edgePlan, targets []target) (string, error) {
	rounds := make([][]edgeFigures, len(targets))
	for round := range plan.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, plan.rounds)
		for i, t := range targets {
			before := used(t.pids)
			result, err := drive.Run(ctx, drive.Load{Request: t.chat, Connections: plan.connections, Time: plan.round})
			if err != nil {
				return "", fmt.Errorf("%s: %w", t.name, err)
			}
			f := edgeFigures{
				perSecond: result.PerSecond(), failed: result.Failed,
				cpu: (used(t.pids) - before) / time.Duration(max(result.Done(), 1)),
			}
			f.p50, f.p99 = quantiles(result.Latency)
			if result.Failure != nil {
				fmt.Fprintln(os.Stderr, "  failed:", t.name, result.Failure)
			}
			rounds[i] = append(rounds[i], f)
		}
	}
	return edgeTable(plan, targets, rounds), nil
}

func edgeTable(plan edgePlan, targets []target, rounds [][]edgeFigures) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s; medians of %d rounds of %s; %d connections\n\n", machine(), plan.rounds, plan.round, plan.connections)
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	printf(w, "way\trps\tp50\tp99\tCPU/request\tbeside the relay\tfailed\t\n")
	medians := make([]edgeFigures, len(targets))
	for i, all := range rounds {
		for _, f := range all {
			medians[i].failed += f.failed
		}
		slices.SortFunc(all, func(a, b edgeFigures) int { return int(a.cpu - b.cpu) })
		middle := all[len(all)/2]
		middle.failed = medians[i].failed
		medians[i] = middle
	}
	for i, m := range medians {
		printf(w, "%s\t%.0f\t%s\t%s\t%.1f µs\t%.2fx\t%d\t\n", targets[i].name, m.perSecond, micros(m.p50), micros(m.p99),
			float64(m.cpu.Nanoseconds())/1000, ratio(m.cpu, medians[1].cpu), m.failed)
	}
	_ = w.Flush()
	return out.String()
}
