package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/service"
)

var errKeysUsage = errors.New(`use
  edge keys create --org O --product P --permission read,write,SCOPE,... [--env live] [--name N] [--expires-in 720h] [--limit 600/1m]
      [--tpm 100000] [--model M]... [--budget 5000/month] [--class interactive|standard|bulk] [--json]
  edge keys list [--org O] [--json]
  edge keys rotate ID [--overlap 24h] [--expires-in 720h] [--json]
  edge keys expire ID --in 24h | --never
  edge keys limit ID 600/1m | none
  edge keys terms ID [--tpm 100000 | none] [--model M ... | --all-models] [--budget 5000/month | none] [--class bulk | none]
  edge keys revoke ID`)

// keyCommand is a subcommand of `edge keys`.
type keyCommand func(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error

// Keys runs `edge keys`: the operator API's operations without a running edge.
func Keys(ctx context.Context, cfg Config, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errKeysUsage
	}
	command, ok := map[string]keyCommand{
		"create": createKey, "list": listKeys, "rotate": rotateKey, "expire": expireKey, "limit": limitKey, "terms": setTerms, "revoke": revokeKey,
	}[args[0]]
	if !ok {
		return errKeysUsage
	}
	manager, done, err := openManager(ctx, cfg)
	if err != nil {
		return err
	}
	defer done()
	return command(ctx, manager, apikey.Actor{Name: "cli:" + operator()}, args[1:], out)
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

func createKey(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error {
	var r apikey.Request
	flags := flagSet("create")
	flags.StringVar(&r.Organization, "org", "", "organization")
	flags.StringVar(&r.Product, "product", "", "product")
	permissions := flags.String("permission", "", "read, write and scopes such as webhooks:endpoints:write, separated by commas")
	flags.StringVar(&r.Environment, "env", "", "environment in the key's prefix")
	flags.StringVar(&r.Name, "name", "", "name for people")
	lifetime := flags.Duration("expires-in", 0, "lifetime; 0 is without end")
	flags.TextVar(&r.Limit, "limit", limit.Limit{}, "rate limit; none is the edge's own")
	termFlags(flags, &r.Terms)
	asJSON := flags.Bool("json", false, "print JSON")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
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

func listKeys(ctx context.Context, manager *apikey.Manager, _ apikey.Actor, args []string, out io.Writer) error {
	flags := flagSet("list")
	organization := flags.String("org", "", "organization; all when empty")
	asJSON := flags.Bool("json", false, "print one JSON object per line")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !*asJSON {
		_, _ = fmt.Fprintln(table, "ID\tORGANIZATION\tPRODUCT\tPERMISSIONS\tENV\tSTATE\tNAME")
	}
	for after := ""; ; {
		keys, err := manager.List(ctx, *organization, after, listPage)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := printKey(out, table, key, *asJSON); err != nil {
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
		key.ID, key.Organization, key.Product, strings.Trim(fmt.Sprint(key.Permissions), "[]"), key.Environment, state, key.Name)
	return err
}

func rotateKey(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error {
	flags := flagSet("rotate")
	overlap := flags.Duration("overlap", 24*time.Hour, "how long the old key stays good; 0 ends it now")
	lifetime := flags.Duration("expires-in", 0, "lifetime of the new key; 0 is that of the old one")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := parse(flags, args, 1); err != nil {
		return err
	}
	key, text, err := manager.Rotate(ctx, by, flags.Arg(0), apikey.Rotation{Overlap: *overlap, ExpiresAt: end(*lifetime)})
	if err != nil {
		return err
	}
	return showOnce(out, key, text, *asJSON)
}

func expireKey(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error {
	flags := flagSet("expire")
	in := flags.Duration("in", 0, "the key ends so long from now")
	never := flags.Bool("never", false, "the key never ends")
	if err := parse(flags, args, 1); err != nil {
		return err
	}
	if (*in == 0) != *never {
		return errKeysUsage
	}
	key, err := manager.Update(ctx, by, flags.Arg(0), apikey.Update{ExpiresAt: new(end(*in))})
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

func limitKey(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error {
	flags := flagSet("limit")
	if err := parse(flags, args, 2); err != nil {
		return err
	}
	var l limit.Limit
	if flags.Arg(1) != "none" {
		if err := l.UnmarshalText([]byte(flags.Arg(1))); err != nil {
			return fmt.Errorf("%s: %w", flags.Arg(1), err)
		}
	}
	key, err := manager.Update(ctx, by, flags.Arg(0), apikey.Update{Limit: &l})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "limited", key.ID, flags.Arg(1))
	return err
}

func revokeKey(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error {
	flags := flagSet("revoke")
	if err := parse(flags, args, 1); err != nil {
		return err
	}
	if err := manager.Revoke(ctx, by, flags.Arg(0)); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "revoked", flags.Arg(0))
	return err
}

func flagSet(name string) *flag.FlagSet {
	flags := flag.NewFlagSet("edge keys "+name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parse requires exactly n arguments, before or after the flags.
func parse(flags *flag.FlagSet, args []string, n int) error {
	first := 0
	for first < len(args) && first < n && !strings.HasPrefix(args[first], "-") {
		first++
	}
	args = append(slices.Clone(args[first:]), args[:first]...)
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%s: %w\n%w", flags.Name(), err, errKeysUsage)
	}
	if flags.NArg() != n {
		return errKeysUsage
	}
	return nil
}
