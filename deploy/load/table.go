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

// gatewayReport renders the figures of all ways, how each compares with its floor, the targets, and how processor time
// was measured.
func gatewayReport(plan gatewayPlan, targets []target, all []figures, s syncs) string {
	var out strings.Builder
	printf(&out, "%s; medians of %d rounds of %s; CPU at %d connections; ",
		machine(), plan.rounds, plan.round, costed)
	printf(&out, "streams of %d pieces, %s apart or, for CPU/event, without a pause; %s; %s\n\n",
		plan.pieces, plan.pause, s, conditions(plan))
	wayTable(&out, targets, all)
	out.WriteString("\nbeside its floor, one relay or two (added: beyond the provider itself):\n")
	floorTable(&out, targets, all)
	out.WriteString("\n")
	goalTable(&out, targets, all, s)
	out.WriteString("\n")
	foot(&out, plan, targets, all)
	return out.String()
}

// conditions says whether the organization is on a plan and whether usage is exported.
func conditions(plan gatewayPlan) string {
	parts := []string{"the organization without a plan", "no exports of usage"}
	if plan.limited {
		parts[0] = "the organization on a plan with limits of calls, tokens and cents"
	}
	if plan.exports {
		parts[1] = "exports of usage to three billing systems"
	}
	return strings.Join(parts, ", ")
}

func wayTable(out io.Writer, targets []target, all []figures) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	printf(w, "way\trps c1\trps c16\trps c64\tCPU/request\tcontrol\tPostgres\tat %d/s\tp50/p99 at 200/s\t", storeRate)
	printf(w, "p50/p99 at 1000/s\tTTFT p50/p99\tCPU/event\tstreams of %d\tfailed\t\n", parallelStreams)
	for i, f := range all {
		c := f.cost[costed]
		printf(w, "%s\t%.0f\t%.0f\t%.0f\t", targets[i].name, f.perSecond[1], f.perSecond[16], f.perSecond[64])
		printf(w, "%s µs\t%s\t%s\t%s\t",
			byProcess(c.services, targets[i].pids), micros(c.control), micros(c.store), micros(f.steady))
		printf(w, "%s\t%s\t", millis(f.p50[200], f.p99[200]), millis(f.p50[1000], f.p99[1000]))
		printf(w, "%s\t%.1f µs\t%d\t%d\t\n",
			millis(f.first50, f.first99), inMicros(f.event), f.streams, f.failed)
	}
	_ = w.Flush()
}

// floorTable compares each way beyond the floors with one relay, or with two if the way goes through the edge.
func floorTable(out io.Writer, targets []target, all []figures) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	printf(w, "way\trps c64\tCPU\twith Postgres\tand control\tadded p50 at 200/s\t")
	printf(w, "p99 at 200/s\tp99 at 1000/s\tCPU/event\t\n")
	for i, f := range all[firstWay:] {
		t := targets[firstWay+i]
		floor, c := all[len(t.pids)], f.cost[costed]
		relays := floor.cost[costed].onWay()
		printf(w, "%s\t%.2fx\t%.2fx\t%.2fx\t%.2fx\t", t.name, f.perSecond[64]/floor.perSecond[64],
			ratio(c.onWay(), relays), ratio(c.onWay()+c.store, relays), ratio(c.onWay()+c.store+c.control, relays))
		printf(w, "%s\t%.2fx\t%.2fx\t%.2fx\t\n", micros(f.p50[200]-all[0].p50[200]),
			ratio(f.p99[200], floor.p99[200]), ratio(f.p99[1000], floor.p99[1000]), ratio(f.event, floor.event))
	}
	_ = w.Flush()
}

// foot says how processor time was measured and what it leaves out.
func foot(out io.Writer, plan gatewayPlan, targets []target, all []figures) {
	if plan.exports {
		printf(out, "CPU is what the processes spend until the last answer and, beyond what they spend idle, until "+
			"exports have caught up.\nLeft out: client, provider, billing systems, Redis, webhook-egress, notify.\n")
	} else {
		printf(out, "CPU is what the processes spend until the last answer; what they do afterwards is left out.\n"+
			"Left out as well: client, provider, Redis, webhook-egress, notify.\n")
	}
	t := targets[len(targets)-1]
	printf(out, "Idle, the processes of %q spend in a second: on the way %s ms, control %d ms, Postgres %d ms.\n", t.name,
		perProcess(t.idle.services, t.pids, time.Millisecond), t.idle.control.Milliseconds(),
		t.idle.store.Milliseconds())
	for i, f := range all {
		if f.unsettled > 0 {
			printf(out, "%s: exports were still behind %s after %d of the measurements, whose CPU is too low.\n",
				targets[i].name, settleTime, f.unsettled)
		}
	}
}

// byProcess renders the processor time of each process in microseconds.
func byProcess(cpu [2]time.Duration, pids []int) string {
	return perProcess(cpu, pids, time.Microsecond)
}

// perProcess renders the processor time of each process in a unit.
func perProcess(cpu [2]time.Duration, pids []int, unit time.Duration) string {
	parts := []string{}
	for i := range max(len(pids), 1) {
		parts = append(parts, strconv.FormatInt(int64(cpu[i]/unit), 10))
	}
	return strings.Join(parts, "+")
}

func millis(p50, p99 time.Duration) string {
	return fmt.Sprintf("%.2f/%.1f ms", p50.Seconds()*1000, p99.Seconds()*1000)
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func micros(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }

// inMicros returns a duration in microseconds.
func inMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// printf writes to a report, which is in memory and never fails.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
