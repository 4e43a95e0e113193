package app

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"switchyard.dev/services/edge/internal/export"
	"switchyard.dev/services/platform/service"
)

var errExportsUsage = errors.New(`use
  edge exports status
  edge exports dry-run DESTINATION
  edge exports backfill DESTINATION --from 2026-11-01T00:00:00Z --to 2026-11-02T00:00:00Z [--dry-run]`)

// holder names this process for leases.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "/" + rand.Text()
}

// Exports runs `edge exports`: the operator API's operations without a running control.
func Exports(ctx context.Context, cfg Config, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errExportsUsage
	}
	pool, err := service.OpenPool(ctx, cfg.database())
	if err != nil {
		return err
	}
	defer pool.Close()
	x, err := newExports(cfg, pool)
	if err != nil {
		return err
	}
	manager := x.manager()
	switch {
	case args[0] == "status" && len(args) == 1:
		return printExports(ctx, manager, out)
	case args[0] == "dry-run" && len(args) == 2:
		preview, err := manager.PreviewNext(ctx, args[1], time.Now())
		if err != nil {
			return err
		}
		return printPreview(preview, out)
	case args[0] == "backfill" && len(args) > 2:
		return backfill(ctx, manager, args[1], args[2:], out)
	}
	return errExportsUsage
}

func backfill(ctx context.Context, manager *export.Manager, destination string, args []string, out io.Writer) error {
	var from, to time.Time
	flags := flag.NewFlagSet("edge exports backfill", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.TextVar(&from, "from", time.Time{}, "beginning, RFC 3339")
	flags.TextVar(&to, "to", time.Time{}, "end, exclusive")
	dry := flags.Bool("dry-run", false, "show what would be sent")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return errors.Join(err, errExportsUsage)
	}
	if *dry {
		preview, err := manager.PreviewBackfill(ctx, destination, from, to, time.Now())
		if err != nil {
			return err
		}
		return printPreview(preview, out)
	}
	ids, err := manager.Backfill(ctx, export.Author{Name: "cli:" + operator()}, destination, from, to, time.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "added back-fills", ids, "which a running control sends")
	return err
}

func printExports(ctx context.Context, manager *export.Manager, out io.Writer) error {
	all, err := manager.Status(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "DESTINATION\tSOURCE\tFROM\tTO\tSENT\tREFUSED\tUPDATED\tFAILURE")
	for _, status := range all {
		for _, c := range status.Cursors {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", status.Destination.Name, c.Source, c.Since.Format(time.RFC3339),
				endOf(c), c.Sent, c.Refused, c.UpdatedAt.Format(time.RFC3339), c.Failure)
		}
	}
	return table.Flush()
}

// endOf returns the end of a cursor for people.
func endOf(c export.Cursor) string {
	switch {
	case c.Until.IsZero():
		return "-"
	case c.FinishedAt.IsZero():
		return c.Until.Format(time.RFC3339)
	}
	return c.Until.Format(time.RFC3339) + " (done)"
}

func printPreview(p export.Preview, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "METRIC\tCUSTOMER\tNAME\tEVENTS\tSUM")
	for _, m := range p.Meters {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", m.Metric, m.Customer, m.Name, m.Events, m.Sum)
	}
	if err := table.Flush(); err != nil || p.Complete {
		return err
	}
	_, err := fmt.Fprintln(out, "and more")
	return err
}
