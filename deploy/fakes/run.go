package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/deploy/fakes/billing"
	"switchyard.dev/deploy/fakes/cert"
	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/identity"
	"switchyard.dev/deploy/fakes/provider"
	"switchyard.dev/deploy/fakes/push"
	"switchyard.dev/deploy/fakes/slack"
	"switchyard.dev/deploy/fakes/smtp"
	"switchyard.dev/deploy/fakes/tarpit"
	"switchyard.dev/deploy/fakes/toolserver"
	"switchyard.dev/deploy/fakes/webhook"
)

const stopGrace = 2 * time.Second

// service is one fake and the address it listens on.
type service struct {
	name, scheme, address string
	serve                 func(context.Context, net.Listener) error
	listener              net.Listener
}

// run serves all fakes until ctx ends. Once all listen, it prints one line "name url" for each, and "ready".
func run(ctx context.Context, cfg config, out io.Writer) error {
	certificate, text, err := certify(cfg)
	if err != nil {
		return err
	}
	if cfg.caFile != "" {
		if err := os.WriteFile(cfg.caFile, text, 0o644); err != nil { //nolint:gosec // a public certificate
			return fmt.Errorf("--ca-file: %w", err)
		}
	}
	running, err := listen(ctx, services(cfg, certificate, out))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	var addresses []byte
	for _, s := range running {
		group.Go(func() error { return s.serve(ctx, s.listener) })
		addresses = fmt.Appendf(addresses, "%-16s %s://%s\n", s.name, s.scheme, s.listener.Addr())
	}
	group.Go(func() error {
		_, err := out.Write(append(addresses, "ready\n"...))
		return err
	})
	return group.Wait()
}

// certify returns the certificate of the fakes and its PEM text.
func certify(cfg config) (tls.Certificate, []byte, error) {
	if cfg.keyFile == "" {
		return cert.New(time.Now(), cfg.tlsHosts...)
	}
	certificate, text, err := cert.Kept(cfg.keyFile, time.Now(), cfg.tlsHosts...)
	if err != nil {
		err = fmt.Errorf("--key-file: %w", err)
	}
	return certificate, text, err
}

// listen opens the address of each service that has one: all of them, or none.
func listen(ctx context.Context, all []service) ([]service, error) {
	var open []service
	for _, s := range all {
		if s.address == "" {
			continue
		}
		var (
			config net.ListenConfig
			err    error
		)
		if s.listener, err = config.Listen(ctx, "tcp", s.address); err != nil {
			for _, o := range open {
				_ = o.listener.Close()
			}
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		open = append(open, s)
	}
	return open, nil
}

func services(cfg config, certificate tls.Certificate, out io.Writer) []service {
	var log *slog.Logger
	if cfg.verbose {
		log = slog.New(slog.NewTextHandler(out, nil))
	}
	issuer := identity.New(fault.Script{})
	mail := smtp.New(fault.Script{}, certificate)
	overHTTP := func(name, address string, handler http.Handler) service {
		if slices.Contains(cfg.tls, name) {
			return service{name: name, scheme: "https", address: address, serve: serveHTTP(handler, &tls.Config{
				Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
			})}
		}
		return service{name: name, scheme: "http", address: address, serve: serveHTTP(handler, nil)}
	}
	return []service{
		overHTTP("provider", cfg.provider, provider.New(fault.Script{})),
		overHTTP("webhook", cfg.webhook, webhook.New(fault.Script{}, webhook.Options{Secrets: cfg.webhookSecrets, Log: log})),
		overHTTP("slack", cfg.slack, slack.New(fault.Script{})),
		overHTTP("push", cfg.push, push.New(fault.Script{})),
		{name: "smtp", scheme: "smtp", address: cfg.smtp, serve: mail.Serve},
		overHTTP("smtp-control", cfg.smtpControl, mail),
		overHTTP("hostile-provider", cfg.hostileProvider, provider.New(fault.Script{})),
		overHTTP("hostile-webhook", cfg.hostileWebhook, webhook.New(fault.Script{}, webhook.Options{Secrets: cfg.webhookSecrets, Log: log})),
		overHTTP("hostile-push", cfg.hostilePush, push.New(fault.Script{})),
		overHTTP("identity", cfg.identity, issuer),
		overHTTP("guarded-provider", cfg.guardedProvider, issuer.Guard(provider.New(fault.Script{}))),
		overHTTP("billing", cfg.billing, billing.New(fault.Script{})),
		overHTTP("tools", cfg.tools, toolserver.New(fault.Script{})),
		{name: "tarpit", scheme: "tcp", address: cfg.tarpit, serve: tarpit.Serve},
	}
}

// serveHTTP serves HTTP/1.1 only: some faults use the connection below it.
func serveHTTP(handler http.Handler, config *tls.Config) func(context.Context, net.Listener) error {
	return func(ctx context.Context, ln net.Listener) error {
		srv := &http.Server{
			Handler:           handler,
			ReadHeaderTimeout: 30 * time.Second,
			IdleTimeout:       5 * time.Minute,
			// Stalled answers end with ctx, or else stopping would wait for them.
			BaseContext: func(net.Listener) context.Context { return ctx },
			Protocols:   new(http.Protocols),
		}
		srv.Protocols.SetHTTP1(true)
		stopped := make(chan struct{})
		context.AfterFunc(ctx, func() {
			defer close(stopped)
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
			defer cancel()
			if srv.Shutdown(grace) != nil {
				_ = srv.Close()
			}
		})
		if config != nil {
			ln = tls.NewListener(ln, config)
		}
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		<-stopped
		return nil
	}
}
