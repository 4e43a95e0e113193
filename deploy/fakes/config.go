package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"switchyard.dev/deploy/fakes/webhook"
)

// config holds the flags. A fake with an empty address isn't started.
type config struct {
	provider, webhook, slack, push, smtp, smtpControl, tarpit string
	// Further instances of three fakes, for hostile behaviours: the state that a client keeps about their hosts (breakers,
	// retries) must not affect the others.
	hostileProvider, hostileWebhook, hostilePush string
	// identity issues credentials, and guardedProvider is an AI provider that takes no others.
	identity, guardedProvider string
	// billing takes usage as Stripe, OpenMeter and Lago do.
	billing string
	// tools is a server of the Model Context Protocol.
	tools string

	webhookSecrets webhook.Secrets
	verbose        bool
	// tls names the HTTP fakes that are served over TLS.
	tls      []string
	tlsHosts []string
	caFile   string
	// keyFile keeps the certificate and its key from one start to the next.
	keyFile string
}

// httpFakes lists the fakes that --tls accepts.
var httpFakes = []string{"provider", "webhook", "slack", "push", "hostile-provider", "hostile-webhook", "hostile-push", "identity", "guarded-provider", "billing", "tools"}

func parseConfig(args []string, help io.Writer) (config, error) {
	var cfg config
	var secret, secretFile, ofEndpoints, overTLS, hosts string
	flags := flag.NewFlagSet("fakes", flag.ContinueOnError)
	flags.SetOutput(help)
	flags.StringVar(&cfg.provider, "provider", "127.0.0.1:8190", "`address` of the AI provider; empty leaves it out, as for the others")
	flags.StringVar(&cfg.webhook, "webhook", "127.0.0.1:8191", "`address` of the webhook receiver")
	flags.StringVar(&cfg.slack, "slack", "127.0.0.1:8192", "`address` of Slack")
	flags.StringVar(&cfg.push, "push", "127.0.0.1:8193", "`address` of the web push service")
	flags.StringVar(&cfg.smtp, "smtp", "127.0.0.1:8194", "`address` of the mail server")
	flags.StringVar(&cfg.smtpControl, "smtp-control", "127.0.0.1:8195", "HTTP `address` of the mail server's script and messages")
	flags.StringVar(&cfg.tarpit, "tarpit", "", "`address` that takes connections and never answers (default none)")
	flags.StringVar(&cfg.hostileProvider, "hostile-provider", "", "`address` of a second AI provider, to be called under /hostile/<behaviour> (default none, as for the next two)")
	flags.StringVar(&cfg.hostileWebhook, "hostile-webhook", "", "`address` of a second webhook receiver")
	flags.StringVar(&cfg.hostilePush, "hostile-push", "", "`address` of a second web push service")
	flags.StringVar(&cfg.identity, "identity", "", "`address` of the token servers of clouds and vendors (default none, as for the next)")
	flags.StringVar(&cfg.guardedProvider, "guarded-provider", "", "`address` of an AI provider that takes only their credentials, called under /aws, /gcp, /azure, /foundry, /openai or /anthropic")
	flags.StringVar(&cfg.billing, "billing", "", "`address` of the billing systems that take usage (default none)")
	flags.StringVar(&cfg.tools, "tools", "", "`address` of the server of tools (default none)")
	flags.StringVar(&secret, "webhook-secret", "", "`secret` that webhook signatures are checked with")
	flags.StringVar(&secretFile, "webhook-secret-file", "", "`file` with such secrets, one a line")
	flags.StringVar(&ofEndpoints, "webhook-endpoint-secret-file", "", "`file` with secrets of endpoints, one a line, that signatures of the body alone are checked with")
	flags.BoolVar(&cfg.verbose, "verbose", false, "log a line for each webhook arrival")
	flags.StringVar(&overTLS, "tls", "", "comma `list` of the fakes to serve over TLS: "+strings.Join(httpFakes, ", "))
	flags.StringVar(&hosts, "tls-hosts", "", "comma `list` of further host names for the certificate")
	flags.StringVar(&cfg.caFile, "ca-file", "", "`file` to write the certificate to, for clients to trust")
	flags.StringVar(&cfg.keyFile, "key-file", "", "`file` that keeps the certificate and its key, so that the next start has the same (default none)")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	cfg.tls, cfg.tlsHosts = split(overTLS), split(hosts)
	for _, name := range cfg.tls {
		if !slices.Contains(httpFakes, name) {
			return config{}, fmt.Errorf("--tls: %q is not one of %s", name, strings.Join(httpFakes, ", "))
		}
	}
	var err error
	if cfg.webhookSecrets.Organization, err = readSecrets(secretFile); err != nil {
		return config{}, fmt.Errorf("--webhook-secret-file: %w", err)
	}
	if secret != "" {
		cfg.webhookSecrets.Organization = append([]string{secret}, cfg.webhookSecrets.Organization...)
	}
	if cfg.webhookSecrets.Endpoint, err = readSecrets(ofEndpoints); err != nil {
		return config{}, fmt.Errorf("--webhook-endpoint-secret-file: %w", err)
	}
	return cfg, nil
}

// readSecrets reads one secret per line; without a file it returns none.
func readSecrets(file string) ([]string, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var secrets []string
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" {
			secrets = append(secrets, line)
		}
	}
	return secrets, nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
