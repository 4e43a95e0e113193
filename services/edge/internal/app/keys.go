package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/command"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/service"
)

// managed is what a command does with the keys.
type managed func(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error

// keysCommand returns `edge keys`: the operator API's operations without a running edge.
func keysCommand(line command.Service[Config]) *cobra.Command {
	// with has a command run with the keys of the settings.
	with := func(c *cobra.Command, do managed) *cobra.Command {
		c.RunE = line.With(func(c *cobra.Command, cfg Config, args []string) error {
			manager, done, err := openManager(c.Context(), cfg)
			if err != nil {
				return err
			}
			defer done()
			return do(c.Context(), manager, apikey.Actor{Name: "cli:" + operator()}, args, c.OutOrStdout())
		})
		return c
	}
	return command.Group("keys", "create, list, change and revoke product keys",
		with(createKey()), with(listKeys()), with(rotateKey()), with(expireKey()), with(limitKey()), with(setTerms()), with(revokeKey()))
}

// operator returns the user who runs the command, for the audit.
func operator() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "unknown"
}

// openManager opens a manager with its connections; done closes them.
func openManager(ctx context.Context, cfg Config) (manager *apikey.Manager, done func(), err error) {
	table, err := route.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	pepper, err := pepper(cfg)
	if err != nil {
		return nil, nil, err
	}
	pool, err := service.OpenPool(ctx, cfg.database())
	if err != nil {
		return nil, nil, err
	}
	client, err := service.OpenRedis(ctx, cfg.redis())
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	done = pool.Close
	var announce apikey.Announcer
	if client != nil {
		announce = newBus(client)
		done = func() {
			_ = client.Close()
			pool.Close()
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return apikey.NewManager(pepper, postgres.NewKeys(pool), announce, table.Products(), log), done, nil
}

func createKey() (*cobra.Command, managed) {
	c := &cobra.Command{Use: "create", Short: "create a key, which is shown only now"}
	flags := c.Flags()
	var r apikey.Request
	flags.StringVar(&r.Organization, "org", "", "organization")
	flags.StringVar(&r.Product, "product", "", "product")
	permissions := flags.String("permission", "", "read, write and scopes such as webhooks:endpoints:write, separated by commas")
	flags.StringVar(&r.Environment, "env", "", "environment in the key's prefix")
	flags.StringVar(&r.Name, "name", "", "name for people")
	lifetime := flags.Duration("expires-in", 0, "lifetime; 0 is without end")
	flags.TextVar(&r.Limit, "limit", limit.Limit{}, "rate limit, such as 600/1m; none is the edge's own")
	termFlags(flags, &r.Terms)
	asJSON := flags.Bool("json", false, "print JSON")
	return c, func(ctx context.Context, manager *apikey.Manager, by apikey.Actor, _ []string, out io.Writer) error {
		for p := range strings.SplitSeq(*permissions, ",") {
			r.Permissions = append(r.Permissions, apikey.Permission(strings.TrimSpace(p)))
		}
		r.ExpiresAt = end(*lifetime)
		key, text, err := manager.Create(ctx, by, r)
		if err != nil {
			return err
		}
		return showOnce(out, key, text, *asJSON)
	}
}

// end returns when a lifetime that begins now ends, nil for an unlimited one.
func end(lifetime time.Duration) *time.Time {
	if lifetime == 0 {
		return nil
	}
	return new(time.Now().UTC().Truncate(time.Microsecond).Add(lifetime))
}

// showOnce prints a key that was just created.
func showOnce(out io.Writer, key apikey.Key, text secret.Value, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(control.NewKey(key, text))
	}
	_, err := fmt.Fprintf(out, "%s\n%s\nThis is the only time the key is shown.\n", key.ID, text.Reveal())
	return err
}

// listPage is how many keys are read at a time.
const listPage = 200

func listKeys() (*cobra.Command, managed) {
	c := &cobra.Command{Use: "list", Short: "list keys"}
	organization := c.Flags().String("org", "", "organization; all if absent")
	asJSON := c.Flags().Bool("json", false, "print one JSON object per line")
	return c, func(ctx context.Context, manager *apikey.Manager, _ apikey.Actor, _ []string, out io.Writer) error {
		return printKeys(ctx, manager, *organization, *asJSON, out)
	}
}

func printKeys(ctx context.Context, manager *apikey.Manager, organization string, asJSON bool, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !asJSON {
		_, _ = fmt.Fprintln(table, "ID\tORGANIZATION\tPRODUCT\tPERMISSIONS\tENV\tSTATE\tNAME")
	}
	for after := ""; ; {
		keys, err := manager.List(ctx, organization, after, listPage)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := printKey(out, table, key, asJSON); err != nil {
				return err
			}
		}
		if len(keys) < listPage {
			return table.Flush()
		}
		after = keys[len(keys)-1].ID
	}
}

func printKey(out, table io.Writer, key apikey.Key, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(control.NewKey(key, secret.Value{}))
	}
	state := "live"
	switch {
	case key.RevokedAt != nil:
		state = "revoked"
	case !key.Live(time.Now()):
		state = "expired"
	}
	_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
		key.ID, key.Organization, key.Product, strings.Trim(fmt.Sprint(key.Permissions), "[]"), key.Environment, state, printable(key.Name))
	return err
}

// printable returns a text as one that moves no cursor: customers name keys.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

func rotateKey() (*cobra.Command, managed) {
	c := &cobra.Command{Use: "rotate ID", Short: "replace a key by a new one, which is shown only now", Args: command.Args(1, 1)}
	overlap := c.Flags().Duration("overlap", 24*time.Hour, "how long the old key stays good; 0 ends it now")
	lifetime := c.Flags().Duration("expires-in", 0, "lifetime of the new key; 0 is that of the old one")
	asJSON := c.Flags().Bool("json", false, "print JSON")
	return c, func(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error {
		key, text, err := manager.Rotate(ctx, by, args[0], apikey.Rotation{Overlap: *overlap, ExpiresAt: end(*lifetime)})
		if err != nil {
			return err
		}
		return showOnce(out, key, text, *asJSON)
	}
}

func expireKey() (*cobra.Command, managed) {
	c := &cobra.Command{Use: "expire ID", Short: "set when a key ends", Args: command.Args(1, 1)}
	in := c.Flags().Duration("in", 0, "the key ends so long from now")
	never := c.Flags().Bool("never", false, "the key never ends")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if (*in == 0) != *never {
			return command.Wrong(c, "want one of --in and --never")
		}
		return nil
	}
	return c, func(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error {
		key, err := manager.Update(ctx, by, args[0], apikey.Update{ExpiresAt: new(end(*in))})
		if err != nil {
			return err
		}
		when := "never"
		if key.ExpiresAt != nil {
			when = key.ExpiresAt.Format(time.RFC3339)
		}
		_, err = fmt.Fprintln(out, key.ID, "expires", when)
		return err
	}
}

func limitKey() (*cobra.Command, managed) {
	c := &cobra.Command{Use: "limit ID LIMIT|none", Short: "set a key's rate limit, such as 600/1m", Args: command.Args(2, 2)}
	var l limit.Limit
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if args[1] == none {
			return nil
		}
		if err := l.UnmarshalText([]byte(args[1])); err != nil {
			return command.Wrong(c, args[1]+": "+err.Error())
		}
		return nil
	}
	return c, func(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error {
		key, err := manager.Update(ctx, by, args[0], apikey.Update{Limit: &l})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, "limited", key.ID, args[1])
		return err
	}
}

func revokeKey() (*cobra.Command, managed) {
	c := &cobra.Command{Use: "revoke ID", Short: "end a key now", Args: command.Args(1, 1)}
	return c, func(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error {
		if err := manager.Revoke(ctx, by, args[0]); err != nil {
			return err
		}
		_, err := fmt.Fprintln(out, "revoked", args[0])
		return err
	}
}
