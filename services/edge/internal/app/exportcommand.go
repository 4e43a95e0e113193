package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"switchyard.dev/services/edge/internal/export"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/command"
	"switchyard.dev/services/platform/service"
)

// holder names this process for leases.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "/" + rand.Text()
}

// exporting is what a command does with the exports.
type exporting func(ctx context.Context, manager *export.Manager, args []string, out io.Writer) error

// exportsCommand returns `edge exports`: the operator API's operations without a running control.
func exportsCommand(line command.Service[Config]) *cobra.Command {
	// with has a command run with the exports of the settings.
	with := func(c *cobra.Command, do exporting) *cobra.Command {
		c.RunE = line.With(func(c *cobra.Command, cfg Config, args []string) error {
			pool, err := service.OpenPool(c.Context(), cfg.database())
			if err != nil {
				return err
			}
			defer pool.Close()
			secure, err := cfg.UpstreamTLS.Config()
			if err != nil {
				return fmt.Errorf("%s_UPSTREAM_TLS_: %w", prefix, err)
			}
			x, err := newExports(cfg, pool, newTail(cfg, proxy.Transport(secure), slog.New(slog.DiscardHandler)))
			if err != nil {
				return err
			}
			return do(c.Context(), x.manager(), args, c.OutOrStdout())
		})
		return c
	}
	status := &cobra.Command{Use: "status", Short: "list how far each destination is"}
	dry := &cobra.Command{Use: "dry-run DESTINATION", Short: "print what would be sent now", Args: command.Args(1, 1)}
	return command.Group("exports", "show exports of usage, and fill gaps in them",
		with(status, func(ctx context.Context, manager *export.Manager, _ []string, out io.Writer) error {
			return printExports(ctx, manager, out)
		}),
		with(dry, func(ctx context.Context, manager *export.Manager, args []string, out io.Writer) error {
			preview, err := manager.PreviewNext(ctx, args[0], time.Now())
			if err != nil {
				return err
			}
			return printPreview(preview, out)
		}),
		with(backfill()))
}

func backfill() (*cobra.Command, exporting) {
	c := &cobra.Command{Use: "backfill DESTINATION", Short: "send the usage of an interval again", Args: command.Args(1, 1)}
	var from, to time.Time
	c.Flags().TextVar(&from, "from", time.Time{}, "beginning, RFC 3339")
	c.Flags().TextVar(&to, "to", time.Time{}, "end, exclusive, RFC 3339")
	for _, name := range []string{"from", "to"} {
		c.Flags().Lookup(name).DefValue = "" // They have none; the help would show the year 1.
	}
	events := c.Flags().String("events", "", "refused: only events that the destination refused; all: even those that count twice")
	dry := c.Flags().Bool("dry-run", false, "print what would be sent")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if from.IsZero() || to.IsZero() {
			return command.Wrong(c, "--from and --to are required")
		}
		return nil
	}
	return c, func(ctx context.Context, manager *export.Manager, args []string, out io.Writer) error {
		wanted := export.Backfill{Destination: args[0], From: from, To: to, Events: export.Selection(*events)}
		if *dry {
			preview, err := manager.PreviewBackfill(ctx, wanted, time.Now())
			if err != nil {
				return err
			}
			return printPreview(preview, out)
		}
		ids, err := manager.Backfill(ctx, export.Author{Name: "cli:" + operator()}, wanted, time.Now())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, "added back-fills", ids, "which a running control sends")
		return err
	}
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
