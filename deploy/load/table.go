package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// table renders the figures of all ways and, for each beyond the floor, how it compares with it: throughput, the
// latency that it adds to the provider's, and processor time.
func table(plan gatewayPlan, targets []target, all []figures) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s; medians of %d rounds of %s; open loop at %.0f/s; streams of %d pieces, %s apart\n\n",
		machine(), plan.rounds, plan.round, plan.rate, plan.pieces, plan.pause)
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	printf(w, "way\trps c1\trps c16\trps c64\tCPU/request\tadded p50\tadded p99\tadded TTFT p50\tadded TTFT p99\tstreams of %d\tfailed\t\n", parallelStreams)
	direct := all[0]
	for i, f := range all {
		printf(w, "%s\t%.0f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", targets[i].name,
			f.perSecond[1], f.perSecond[16], f.perSecond[64], micros(f.cpu),
			micros(f.p50-direct.p50), micros(f.p99-direct.p99), micros(f.first50-direct.first50), micros(f.first99-direct.first99),
			f.streams, f.failed)
	}
	_ = w.Flush()
	floor := all[1]
	out.WriteString("\nbeside the floor:\n")
	w = tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	printf(w, "way\trps c64\tadded p50\tCPU/request\t\n")
	for i, f := range all[2:] {
		printf(w, "%s\t%.2fx\t%.2fx\t%.2fx\t\n", targets[i+2].name, f.perSecond[64]/floor.perSecond[64],
			ratio(f.p50-direct.p50, floor.p50-direct.p50), ratio(f.cpu, floor.cpu))
	}
	_ = w.Flush()
	return out.String()
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func micros(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }

// printf writes to a report, which is in memory and never fails.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
