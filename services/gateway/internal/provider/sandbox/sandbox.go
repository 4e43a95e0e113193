// Package sandbox is a provider inside the process: it answers every request
// the same way each time, without a network or a key. A fresh system answers
// with it, tests and drills use it; it is only ever used where configuration
// names it.
//
// Any model whose name begins with "sandbox" answers. Three fail on purpose:
// "sandbox-fail-500" as a vendor's server error, "sandbox-fail-429" as a rate
// limit with a hint of one second, "sandbox-fail-midstream" after the first
// word of a stream.
package sandbox

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// The models that fail on purpose.
const (
	modelServerError = "sandbox-fail-500"
	modelRateLimit   = "sandbox-fail-429"
	modelMidstream   = "sandbox-fail-midstream"
)

var errMidstream = errors.New("the model sandbox-fail-midstream fails so")

// Config of the provider.
type Config struct {
	// Name as the policy calls it.
	Name string
}

// Provider answers by itself. Safe for concurrent use.
type Provider struct{ config Config }

// New returns the provider.
func New(config Config) *Provider { return &Provider{config} }

// Name as the policy calls the provider.
func (p *Provider) Name() string { return p.config.Name }

// Chat answers with the last user text, tool calls or JSON, as asked for.
func (p *Provider) Chat(ctx context.Context, _ provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	if err := refuse(ctx, chat.Model); err != nil {
		return nil, err
	}
	if chat.Model == modelMidstream {
		return nil, wire.Interrupted(ctx, errMidstream)
	}
	return answer(chat), nil
}

// StreamChat gives the answer of Chat word by word.
func (p *Provider) StreamChat(ctx context.Context, _ provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	if err := refuse(ctx, chat.Model); err != nil {
		return nil, err
	}
	s := &stream{ctx: ctx, events: events(answer(chat))}
	if chat.Model == modelMidstream {
		s.events, s.err = s.events[:1], errMidstream
	}
	return s, nil
}

// refuse gives the error of a call that fails before any answer.
func refuse(ctx context.Context, model string) error {
	switch {
	case ctx.Err() != nil:
		return wire.Interrupted(ctx, ctx.Err())
	case model == modelServerError:
		return &provider.Error{
			Class: apierr.ClassServerError, Status: http.StatusInternalServerError,
			Code: "server_error", Text: "the sandbox fails as asked",
		}
	case model == modelRateLimit:
		return &provider.Error{
			Class: apierr.ClassRateLimit, Status: http.StatusTooManyRequests,
			Code: "rate_limit_exceeded", Text: "the sandbox limits as asked", RetryAfter: time.Second,
		}
	case !strings.HasPrefix(model, "sandbox"):
		return &provider.Error{
			Class: apierr.ClassPolicy, Status: http.StatusNotFound,
			Code: "model_not_found", Text: "the sandbox has no such model; its models begin with \"sandbox\"",
		}
	}
	return nil
}
