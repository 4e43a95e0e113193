package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/push"
	"switchyard.dev/services/notify/internal/webpush"
	"switchyard.dev/services/platform/command"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/secret"
)

// WebPush holds the settings of web push.
type WebPush struct {
	VAPIDKeysFile secret.File   `env:"VAPID_KEYS_FILE" doc:"file with the VAPID private keys, one per line, the current one first (notify vapid generate); required with web push"`
	VAPIDSubject  string        `env:"VAPID_SUBJECT" doc:"contact for push services: mailto:name@domain or an https URL; required with web push"`
	Hosts         []string      `env:"HOSTS" envDefault:"fcm.googleapis.com,*.push.services.mozilla.com,*.push.apple.com,*.notify.windows.com" doc:"hosts of allowed push services; *. covers all names below one"`
	MaxContent    int           `env:"MAX_CONTENT" envDefault:"2717" doc:"largest push in bytes of JSON, 512 to 3993; the default is the limit of Firefox on Android"`
	Oversize      string        `env:"OVERSIZE" envDefault:"truncate" doc:"what to do with a larger message: truncate its text, or refuse it"`
	PerHost       int           `env:"MAX_PER_HOST" envDefault:"64" doc:"pushes in flight to one push service per replica; one organization may use half of them"`
	HistoryAge    time.Duration `env:"HISTORY_RETENTION" envDefault:"2160h" doc:"how long the push history is kept"`
}

// leastContent is the lower bound of WebPush.MaxContent, in bytes.
const leastContent = 512

const (
	oversizeTruncate = "truncate"
	oversizeRefuse   = "refuse"
)

// validate names each invalid setting. on reports whether web push is enabled.
func (w WebPush) validate(on bool) error {
	var errs []error
	fail := func(name, rule string) { errs = append(errs, fmt.Errorf("%s_WEB_PUSH_%s: %s", prefix, name, rule)) }
	if on && w.VAPIDKeysFile == "" {
		fail("VAPID_KEYS_FILE", "required with "+prefix+"_WEB_PUSH_ENABLED; `notify vapid generate` makes a key")
	}
	if on || w.VAPIDSubject != "" {
		if err := webpush.CheckSubject(w.VAPIDSubject); err != nil {
			fail("VAPID_SUBJECT", err.Error())
		}
	}
	if w.MaxContent < leastContent || w.MaxContent > webpush.MaxPlaintext {
		fail("MAX_CONTENT", fmt.Sprintf("must be %d to %d", leastContent, webpush.MaxPlaintext))
	}
	if w.Oversize != oversizeTruncate && w.Oversize != oversizeRefuse {
		fail("OVERSIZE", "must be truncate or refuse")
	}
	if w.PerHost < 1 {
		fail("MAX_PER_HOST", "must be 1 or more")
	}
	if _, err := webpush.NewHosts(w.Hosts, nil, nil); err != nil {
		fail("HOSTS", err.Error())
	}
	return errors.Join(errs...)
}

// pushParts holds the parts of web push, if it is enabled.
type pushParts struct {
	keys       *webpush.KeyFile
	http       *http.Client
	registry   *push.Registry
	sender     *push.Sender
	transport  *push.Transport
	rejections *push.Rejections
	devices    *postgres.Devices
}

// newWebPush creates the parts of web push and starts none of them.
func newWebPush(cfg Config, pool *pgxpool.Pool, guard *netguard.Guard, box push.Box, roots *x509.CertPool, log *slog.Logger) (*pushParts, error) {
	own := cfg.WebPush
	keys, err := webpush.OpenKeyFile(own.VAPIDKeysFile)
	if err != nil {
		return nil, err
	}
	hosts, err := webpush.NewHosts(own.Hosts, cfg.Delivery.AllowTargets, guard.CheckURL)
	if err != nil {
		return nil, fmt.Errorf("push hosts: %w", err)
	}
	p := &pushParts{keys: keys, devices: postgres.NewDevices(pool)}
	p.http = webpush.NewHTTP(guard, own.PerHost, netguard.TransportOptions{RootCAs: roots})
	p.registry = push.NewRegistry(p.devices, hosts, keys, box)
	p.sender = push.NewSender(hosts, keys, push.Limits{Content: own.MaxContent, Refuse: own.Oversize == oversizeRefuse})
	p.rejections = push.NewRejections(postgres.NewRejections(pool), log)
	p.transport = push.NewTransport(p.devices, keys, box, webpush.NewClient(p.http, webpush.NewSigner(own.VAPIDSubject)), own.PerHost, p.rejections)
	return p, nil
}

// run starts the parts of web push. added is called after recipients were added.
func (p *pushParts) run(runner *lifecycle.Runner, added func(), log *slog.Logger) {
	runner.OnClose("push connections", func(context.Context) error {
		p.http.CloseIdleConnections()
		return nil
	})
	runner.Go("VAPID keys", func(ctx context.Context) error { return p.keys.Watch(ctx, log) })
	runner.Go("broadcasts", push.NewBroadcaster(p.devices, added, log).Run)
}

// vapidCommand returns `notify vapid`, which needs no settings and no database.
func vapidCommand() *cobra.Command {
	return command.Group("vapid", "make keys of web push", &cobra.Command{
		Use: "generate", Short: "print a new VAPID private key, and to standard error its public key and id",
		Long: "Prints a new VAPID private key for the file of " + prefix + "_WEB_PUSH_VAPID_KEYS_FILE, and to standard error its public key and id.",
		RunE: func(c *cobra.Command, _ []string) error { return generateVAPID(c.OutOrStdout(), c.ErrOrStderr()) },
	})
}

func generateVAPID(out, info io.Writer) error {
	key, private, err := webpush.GenerateKey()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, private.Reveal()); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	_, err = fmt.Fprintf(info, "public key  %s\nkey id      %s\n", key.Public(), key.ID())
	return err
}
