package app

import (
	"context"
	"errors"
	"net/http"

	"switchyard.dev/services/notify/internal/demo"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/service"
)

// Demo holds the settings of the demo page.
type Demo struct {
	Listen      string      `env:"LISTEN" doc:"loopback address of the demo page, for development; empty disables it"`
	TokenFile   secret.File `env:"TOKEN_FILE" doc:"file with the service token that the demo page uses for every visitor; required with DEMO_LISTEN"`
	PushAddress string      `env:"PUSH_ADDRESS" doc:"loopback address of a fake push service, such as deploy/fakes has, at which the demo page subscribes without a vendor; only with DEMO_LISTEN"`
}

// validate refuses a demo page that other machines could open.
func (d Demo) validate() error {
	switch {
	case d.Listen != "" && !rpc.Loopback(d.Listen):
		return errors.New(prefix + "_DEMO_LISTEN: only on loopback")
	case d.Listen != "" && d.TokenFile == "":
		return errors.New(prefix + "_DEMO_TOKEN_FILE: required with " + prefix + "_DEMO_LISTEN")
	case d.PushAddress != "" && (d.Listen == "" || !rpc.Loopback(d.PushAddress)):
		return errors.New(prefix + "_DEMO_PUSH_ADDRESS: want host:port on loopback, and only with " + prefix + "_DEMO_LISTEN")
	}
	return nil
}

// serveDemo serves the demo page over the JSON face, if it is enabled.
func serveDemo(ctx context.Context, s *service.Service, d Demo, api http.Handler) error {
	if d.Listen == "" {
		return nil
	}
	s.Log.WarnContext(ctx, "the demo page acts with its token for every user of this machine", "listen", d.Listen)
	return rpc.ServeHTTP(ctx, s.Runner, "demo", d.Listen, demo.Handler(api, d.TokenFile, d.PushAddress), nil)
}
