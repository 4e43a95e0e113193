package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// firstWay is the index of the first way through the gateway; the provider and two floors are before it.
const firstWay = 3

// table renders the figures of all ways and, for each beyond the floors, how it compares with its own: one relay, or
// two for the ways through the edge.
func table(plan gatewayPlan, targets []target, all []figures) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s; medians of %d rounds of %s; CPU at %d connections; streams of %d pieces, %s apart or, for µs/event, without a pause; %s\n\n",
		machine(), plan.rounds, plan.round, costed, plan.pieces, plan.pause, syncTimes())
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	printf(w, "way\trps c1\trps c16\trps c64\tCPU/request\tPostgres\tat %d/s\tp50/p99 at 200/s\tp50/p99 at 1000/s\tTTFT p50/p99\tCPU/event\tstreams of %d\tfailed\t\n", storeRate, parallelStreams)
	for i, f := range all {
		printf(w, "%s\t%.0f\t%.0f\t%.0f\t%s µs\t%d µs\t%d µs\t%s\t%s\t%s\t%.1f µs\t%d\t%d\t\n", targets[i].name,
			f.perSecond[1], f.perSecond[16], f.perSecond[64], byProcess(f.cpu, targets[i].pids), f.store.Microseconds(), f.steady.Microseconds(),
			millis(f.p50[200], f.p99[200]), millis(f.p50[1000], f.p99[1000]), millis(f.first50, f.first99),
			float64(f.event)/float64(time.Microsecond), f.streams, f.failed)
	}
	_ = w.Flush()
	out.WriteString("\nbeside its floor, one relay or two (added: beyond the provider itself):\n")
	w = tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	printf(w, "way\trps c64\tCPU with Postgres\tadded p50 at 200/s\tp99 at 200/s\tp99 at 1000/s\tCPU/event\t\n")
	for i, f := range all[firstWay:] {
		t := targets[firstWay+i]
		floor := all[len(t.pids)]
		printf(w, "%s\t%.2fx\t%.2fx\t%s\t%.2fx\t%.2fx\t%.2fx\t\n", t.name, f.perSecond[64]/floor.perSecond[64],
			ratio(f.services()+f.store, floor.services()), micros(f.p50[200]-all[0].p50[200]),
			ratio(f.p99[200], floor.p99[200]), ratio(f.p99[1000], floor.p99[1000]), ratio(f.event, floor.event))
	}
	_ = w.Flush()
	return out.String()
}

// byProcess renders the processor time of each process, in microseconds.
func byProcess(cpu [2]time.Duration, pids []int) string {
	parts := []string{}
	for i := range max(len(pids), 1) {
		parts = append(parts, strconv.FormatInt(cpu[i].Microseconds(), 10))
	}
	return strings.Join(parts, "+")
}

func millis(p50, p99 time.Duration) string {
	return fmt.Sprintf("%.2f/%.1f ms", p50.Seconds()*1000, p99.Seconds()*1000)
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func micros(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }

// printf writes to a report, which is in memory and never fails.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
