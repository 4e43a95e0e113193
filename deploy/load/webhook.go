package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/fakes/plain"
	"switchyard.dev/deploy/load/client"
)

// webhookPlan configures a measurement of webhook-egress.
type webhookPlan struct {
	time   time.Duration
	quiet  time.Duration
	rates  bool
	fair   bool
	parked []int
	due    []int
	hold   time.Duration
	grpc   bool
	bin    string
	keep   bool
}

func parseWebhook(args []string) (webhookPlan, error) {
	plan := webhookPlan{}
	set := flag.NewFlagSet("load webhook", flag.ContinueOnError)
	set.DurationVar(&plan.time, "time", 20*time.Second, "time of each measurement")
	set.DurationVar(&plan.quiet, "quiet", 10*time.Second, "time of what is measured while little happens")
	set.BoolVar(&plan.rates, "rates", true, "measure from the enqueue to the arrival")
	set.BoolVar(&plan.fair, "fair", true, "measure a tenant beside one whose receiver hangs")
	set.Func("parked", "sizes of parked backlogs to measure beside, as 10000,1000000", sizes(&plan.parked))
	set.Func("due", "sizes of due backlogs to drain, as 10000,5000000", sizes(&plan.due))
	set.DurationVar(&plan.hold, "hold", 0, "time for which 3,000 deliveries a second are offered at the end")
	set.BoolVar(&plan.grpc, "grpc", false, "hold over gRPC, not HTTP")
	set.StringVar(&plan.bin, "bin", "", "folder with the services' binaries; without one they are built")
	set.BoolVar(&plan.keep, "keep", false, "keep the report in deploy/load/results")
	return plan, set.Parse(args)
}

// sizes returns a parser of comma-separated numbers.
func sizes(into *[]int) func(string) error {
	return func(text string) error {
		for size := range strings.SplitSeq(text, ",") {
			var n int
			if _, err := fmt.Sscan(size, &n); err != nil {
				return err
			}
			*into = append(*into, n)
		}
		return nil
	}
}

// webhookRig is a rig with webhook-egress in it.
type webhookRig struct {
	*rig

	// seeded counts the deliveries written by SQL.
	seeded int
	// accepted counts the accepted deliveries of any load.
	accepted atomic.Int64
}

func runWebhook(ctx context.Context, args []string) (err error) {
	plan, err := parseWebhook(args)
	if err != nil {
		return err
	}
	open, err := openRig(ctx, stack.WebhookEgress, "WEBHOOK_EGRESS_ALLOW_TARGETS", stack.Options{Bin: plan.bin, BuildFlags: asShipped}, "-receiver", "-delay", hang.String())
	if err != nil {
		return err
	}
	r := &webhookRig{rig: open}
	defer func() { err = errors.Join(err, r.close(context.WithoutCancel(ctx))) }()
	report, err := r.measure(ctx, plan)
	fmt.Print(report)
	if err == nil && plan.keep {
		return keep("webhook", report)
	}
	return err
}

// payload has the size of a usual event.
var payload = `{"at":` + client.Stamp + `,"event":"train.arrived","text":"` + strings.Repeat("carriage ", 100) + `"}`

// measure makes the report, part by part. On an error, the report holds what was measured before.
func (r *webhookRig) measure(ctx context.Context, plan webhookPlan) (string, error) {
	var out strings.Builder
	parts := []func(context.Context, webhookPlan, io.Writer) error{r.rates, r.fairness, r.parked, r.due, r.hold}
	var err error
	for _, part := range parts {
		if err = part(ctx, plan, &out); err != nil {
			break
		}
	}
	return fmt.Sprintf("%s, payload of %d bytes, Postgres with fsync on the same machine\n", machine(), len(payload)) + out.String(), err
}

// titled begins a table.
func titled(out io.Writer, title string) *tabwriter.Writer {
	printf(out, "\n%s\n", title)
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// tally returns what has arrived since the last reading.
func (r *webhookRig) tally(ctx context.Context) (plain.Tally, error) {
	var tally plain.Tally
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.receiver.url+"/tally", http.NoBody)
	if err != nil {
		return tally, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return tally, err
	}
	defer func() { _ = answer.Body.Close() }()
	return tally, json.NewDecoder(answer.Body).Decode(&tally)
}

func (r *webhookRig) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
