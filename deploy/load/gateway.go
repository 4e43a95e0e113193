package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchyard.dev/deploy/dev/stack"
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
	// limited puts the organization on a plan; exports turns on the exports of usage that `make run` has.
	limited, exports bool
}

// gatewayWays lists the ways through the gateway: the contract's face without waiting for a disk, the Anthropic and the
// Responses face, translated, without waiting, and the OpenAI face in all modes of the ledger, alone and through the
// edge. The provider itself and the floors, one relay and two in a row, are always measured too.
var gatewayWays = []string{
	"contract", "translated", "responses", "async", "synced", "committed",
	"edge-async", "edge-synced", "edge-committed",
}

// modes are what the gateway's answers wait for, by the names of its setting.
var modes = []string{"async", "synced", "committed"}

func (p gatewayPlan) wants(way string) bool { return slices.Contains(p.ways, way) }

// wantsMode reports whether any way goes through the stack of a mode.
func (p gatewayPlan) wantsMode(mode string) bool {
	return p.wants(mode) || p.wants("edge-"+mode) ||
		mode == "async" && (p.wants("contract") || p.wants("translated") || p.wants("responses"))
}

// parse sets the plan from the command's flags.
func (p *gatewayPlan) parse(args []string) error {
	set := flag.NewFlagSet("load gateway", flag.ContinueOnError)
	set.DurationVar(&p.round, "round", 3*time.Second, "time of each measurement")
	set.IntVar(&p.rounds, "rounds", 3, "repeats, of which the median counts; 0 only watches memory")
	set.IntVar(&p.pieces, "pieces", 100, "pieces of a stream")
	set.DurationVar(&p.pause, "pause", 20*time.Millisecond, "time between the pieces of a stream")
	set.DurationVar(&p.soak, "soak", 30*time.Second, "time under load in which memory is watched")
	set.BoolVar(&p.limited, "plan", true, "put the organization on a plan whose limits are never reached")
	set.BoolVar(&p.exports, "exports", true, "export usage to three fake billing systems, as make run does")
	set.StringVar(&p.bin, "bin", "",
		"folder with the services' binaries and, with -exports, the fakes'; empty builds them")
	set.BoolVar(&p.keep, "keep", false, "keep the report in deploy/load/results")
	ways := set.String("ways", strings.Join(gatewayWays, ","),
		"ways to measure beside the provider and the floors; memory is watched on the first")
	if err := set.Parse(args); err != nil {
		return err
	}
	p.ways = strings.Split(*ways, ",")
	for _, way := range p.ways {
		if !slices.Contains(gatewayWays, way) {
			return fmt.Errorf("-ways: %q is none of %s", way, strings.Join(gatewayWays, ", "))
		}
	}
	return nil
}

func runGateway(ctx context.Context, args []string) (err error) {
	var plan gatewayPlan
	if err := plan.parse(args); err != nil {
		return err
	}
	r := &gatewayRig{stacks: make(map[string]*stack.Stack)}
	defer func() { err = errors.Join(err, r.close(context.WithoutCancel(ctx))) }()
	if err := r.open(ctx, plan); err != nil {
		return err
	}
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
