package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/fakes/plain"
	"switchyard.dev/deploy/load/client"
	"switchyard.dev/deploy/load/drive"
	"switchyard.dev/deploy/load/proc"
)

// webhookPlan is how to measure webhook-egress.
type webhookPlan struct {
	time     time.Duration
	quiet    time.Duration
	backlogs []int
	keep     bool
}

func parseWebhook(args []string) (webhookPlan, error) {
	plan := webhookPlan{}
	set := flag.NewFlagSet("load webhook", flag.ContinueOnError)
	set.DurationVar(&plan.time, "time", 20*time.Second, "time of each measurement")
	set.DurationVar(&plan.quiet, "quiet", 10*time.Second, "time at 50 deliveries a second")
	set.Func("backlogs", "sizes of parked backlogs to measure beside, as 10000,5000000", func(text string) error {
		for size := range strings.SplitSeq(text, ",") {
			var n int
			if _, err := fmt.Sscan(size, &n); err != nil {
				return err
			}
			plan.backlogs = append(plan.backlogs, n)
		}
		return nil
	})
	set.BoolVar(&plan.keep, "keep", false, "keep the report in deploy/load/results")
	return plan, set.Parse(args)
}

// dispatchYard is all that runs while webhook-egress is measured.
type dispatchYard struct {
	dir      string
	receiver *helper
	stack    *stack.Stack
	db       *pgx.Conn
	// service and postgres are the processes whose time is told apart.
	service  int
	postgres func() []int
}

func runWebhook(ctx context.Context, args []string) (err error) {
	plan, err := parseWebhook(args)
	if err != nil {
		return err
	}
	y, err := openDispatchYard(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.close(context.WithoutCancel(ctx))) }()
	report, err := y.measure(ctx, plan)
	fmt.Print(report)
	if err == nil && plan.keep {
		return keep("webhook", report)
	}
	return err
}

func openDispatchYard(ctx context.Context) (_ *dispatchYard, err error) {
	y := &dispatchYard{}
	defer func() {
		if err != nil {
			err = errors.Join(err, y.close(context.WithoutCancel(ctx)))
		}
	}()
	if y.dir, err = openDir(); err != nil {
		return nil, err
	}
	if y.receiver, err = startHelper(ctx, y.dir, "receiver", "-receiver"); err != nil {
		return nil, err
	}
	y.stack, err = stack.Start(ctx, stack.Options{
		State: y.dir + "/stack", Durable: true, BuildFlags: asShipped,
		Env: map[stack.Service][]string{stack.WebhookEgress: {
			"WEBHOOK_EGRESS_ALLOW_TARGETS=" + strings.TrimPrefix(y.receiver.url, "http://"),
		}},
		Progress: func(line string) { fmt.Fprintln(os.Stderr, line) },
	})
	if err != nil {
		return nil, err
	}
	if y.db, err = pgx.Connect(ctx, y.stack.DatabaseURL()); err != nil {
		return nil, err
	}
	if y.service, err = y.stack.PID(string(stack.WebhookEgress)); err != nil {
		return nil, err
	}
	server, err := y.stack.PID("postgres")
	y.postgres = func() []int { return append(proc.Children(server), server) }
	return y, err
}

func (y *dispatchYard) close(ctx context.Context) error {
	var errs []error
	if y.db != nil {
		errs = append(errs, y.db.Close(ctx))
	}
	if y.stack != nil {
		errs = append(errs, y.stack.Stop(ctx))
	}
	if y.receiver != nil {
		y.receiver.Kill()
	}
	return errors.Join(append(errs, os.RemoveAll(y.dir))...)
}

// payload is as big as a usual event.
var payload = `{"at":` + client.Stamp + `,"event":"train.arrived","text":"` + strings.Repeat("carriage ", 100) + `"}`

func (y *dispatchYard) request() (*client.Request, error) {
	return client.NewRequest(y.stack.URL(string(stack.WebhookEgress))+"/v1/deliveries",
		http.Header{"Authorization": {"Bearer " + y.stack.Secrets().Service}, "X-Organization-Id": {stack.Organization}},
		fmt.Appendf(nil, `{"url":%q,"event_type":"train.arrived","payload":%s}`, y.receiver.url+"/hook", payload))
}

func accepted(a client.Answer) error {
	if a.Status != http.StatusAccepted {
		return fmt.Errorf("status %d: %.200s", a.Status, a.Body)
	}
	return nil
}

func (y *dispatchYard) measure(ctx context.Context, plan webhookPlan) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, payload of %d bytes, Postgres with fsync on the same machine\n\n", machine(), len(payload))
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	printf(w, "floor\tper second\t\n")
	posted, err := bareClient(ctx, y.receiver.url, plan.time/4)
	if err != nil {
		return "", err
	}
	printf(w, "bare Go client, 64 connections\t%.0f\t\n", posted)
	inserted, err := batchedInserts(ctx, y.db, plan.time/4)
	if err != nil {
		return "", err
	}
	printf(w, "batched inserts of the same bytes\t%.0f\t\n", inserted)
	_ = w.Flush()

	printf(&out, "\n")
	w = tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	printf(w, "run\taccepted/s\tend to end/s\tenqueue p50\tenqueue p99\tage p50\tage p99\tCPU-s/10k service\tCPU-s/10k Postgres\tWAL bytes each\tfailed\t\n")
	row := func(name string, offer func(context.Context) (*drive.Result, error)) error {
		f, err := y.run(ctx, offer)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		printf(w, "%s\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%.1f\t%.1f\t%d\t%d\t\n", name, f.accepted, f.endToEnd,
			f.enqueue50, f.enqueue99, f.age50, f.age99, f.service, f.postgres, f.wal, f.failed)
		return nil
	}
	errs := []error{
		row("quiet, 50/s", y.http(drive.Load{Connections: 8, Rate: 50, Time: plan.quiet})),
		row("HTTP, 64 connections", y.http(drive.Load{Connections: 64, Time: plan.time})),
		row("HTTP, 256 connections", y.http(drive.Load{Connections: 256, Time: plan.time})),
		row("HTTP, 3000/s offered", y.http(drive.Load{Connections: 128, Rate: 3000, Time: plan.time})),
		row("gRPC, 8 streams", y.streams(8, 0, plan.time)),
		row("gRPC, 3000/s offered", y.streams(8, 3000, plan.time)),
	}
	for _, size := range plan.backlogs {
		if err := y.park(ctx, size); err != nil {
			return "", fmt.Errorf("park %d: %w", size, err)
		}
		errs = append(errs, row(fmt.Sprintf("HTTP, 64 connections, %d parked", size), y.http(drive.Load{Connections: 64, Time: plan.time})))
	}
	_ = w.Flush()
	return out.String(), errors.Join(errs...)
}

// dispatched are the figures of one run.
type dispatched struct {
	accepted, endToEnd                 float64
	enqueue50, enqueue99, age50, age99 time.Duration
	service, postgres                  float64 // CPU seconds per 10,000 deliveries
	wal                                int64
	failed                             int
}

// arrival bounds the wait for what was accepted.
const arrival = 2 * time.Minute

// http offers a load to the JSON face.
func (y *dispatchYard) http(load drive.Load) func(context.Context) (*drive.Result, error) {
	return func(ctx context.Context) (_ *drive.Result, err error) {
		if load.Request, err = y.request(); err != nil {
			return nil, err
		}
		load.Check = accepted
		return drive.Run(ctx, load)
	}
}

// run enqueues what is offered and waits until all has arrived.
func (y *dispatchYard) run(ctx context.Context, offer func(context.Context) (*drive.Result, error)) (dispatched, error) {
	var f dispatched
	before, err := y.tally(ctx)
	if err != nil {
		return f, err
	}
	wal, service, postgres, started := y.walPosition(ctx), used([]int{y.service}), used(y.postgres()), time.Now()
	result, err := offer(ctx)
	if err != nil {
		return f, err
	}
	if result.Done() == 0 {
		return f, fmt.Errorf("nothing was accepted: %w", result.Failure)
	}
	ages := hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
	deadline, tick := time.Now().Add(arrival), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for got := 0; got < result.Done(); {
		now, err := y.tally(ctx)
		if err != nil {
			return f, err
		}
		got = now.Got - before.Got
		for _, age := range now.Ages {
			_ = ages.RecordValue(max(age, 1)) // within its range
		}
		if time.Now().After(deadline) {
			return f, fmt.Errorf("%d of %d accepted deliveries arrived", got, result.Done())
		}
		<-tick.C
	}
	n := float64(result.Done())
	f.accepted, f.endToEnd, f.failed = result.PerSecond(), n/time.Since(started).Seconds(), result.Failed
	f.enqueue50, f.enqueue99 = quantiles(result.Latency)
	f.age50, f.age99 = quantiles(ages)
	f.service = (used([]int{y.service}) - service).Seconds() / n * 10_000
	f.postgres = (used(y.postgres()) - postgres).Seconds() / n * 10_000
	f.wal = (y.walPosition(ctx) - wal) / int64(n)
	if result.Failure != nil {
		fmt.Fprintln(os.Stderr, "  failed:", result.Failure)
	}
	return f, nil
}

func (y *dispatchYard) tally(ctx context.Context) (plain.Tally, error) {
	var tally plain.Tally
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, y.receiver.url+"/tally", http.NoBody)
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

func (y *dispatchYard) walPosition(ctx context.Context) int64 {
	var at int64
	_ = y.db.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").Scan(&at) // 0 shows
	return at
}

func (y *dispatchYard) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
