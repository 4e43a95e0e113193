// Package sandbox implements a provider inside the process. It answers every request deterministically, without a
// network or a key: chat with tools, JSON and images, embeddings, and images generated from the prompt. A fresh
// installation answers with it, and tests and drills use it; it is used only if the configuration names it.
//
// Any model whose name begins with "sandbox" answers everything. Some models fail or wait on purpose, for every
// operation; see models.
package sandbox

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

const (
	// modelMidstream fails after the first word of a stream.
	modelMidstream = "sandbox-fail-midstream"
	// modelHang never answers: a timeout has to end the call.
	modelHang = "sandbox-fail-hang"
	// modelReasoning shows its thinking before it answers.
	modelReasoning = "sandbox-reasoning"
	// modelSlow waits slowStart before its first word and slowStep before each further word.
	modelSlow = "sandbox-slow"
)

const (
	slowStart = time.Second
	slowStep  = 100 * time.Millisecond
)

// models are the models that fail before any answer, as a vendor would.
var models = map[string]provider.Error{
	"sandbox-fail-500": {
		Class: apierr.ClassServerError, Status: http.StatusInternalServerError, Code: "server_error", Text: "the sandbox fails as asked",
	},
	"sandbox-fail-429": {
		Class: apierr.ClassRateLimit, Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded",
		Text: "the sandbox limits as asked", RetryAfter: time.Second,
	},
	"sandbox-fail-401": {
		Class: apierr.ClassAuth, Status: http.StatusUnauthorized, Code: "invalid_api_key", Text: "the sandbox refuses the key as asked",
	},
	"sandbox-fail-400": {
		Class: apierr.ClassPolicy, Status: http.StatusBadRequest, Code: "invalid_request_error", Text: "the sandbox refuses the request as asked",
	},
	"sandbox-fail-context": {
		Class: apierr.ClassContextOverflow, Status: http.StatusBadRequest, Code: "context_length_exceeded",
		Text: "the sandbox finds the input too long as asked",
	},
	"sandbox-fail-content": {
		Class: apierr.ClassContentPolicy, Status: http.StatusBadRequest, Code: "content_policy_violation",
		Text: "the sandbox objects to the content as asked",
	},
}

var errMidstream = errors.New("the model sandbox-fail-midstream fails on purpose")

// Config configures the provider.
type Config struct {
	// Name is the provider's name in the policy.
	Name string
}

// Provider answers without a vendor. Safe for concurrent use.
type Provider struct{ config Config }

// New returns a Provider.
func New(config Config) *Provider { return &Provider{config} }

// Name returns the provider's name in the policy.
func (p *Provider) Name() string { return p.config.Name }

// FetchesImages implements provider.ImageFetcher: there is no network to fetch them from.
func (p *Provider) FetchesImages() bool { return false }

// Chat answers with the last user text, a description of its images, tool calls or JSON, as requested.
func (p *Provider) Chat(ctx context.Context, _ provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	if err := begin(ctx, chat.Model); err != nil {
		return nil, err
	}
	if chat.Model == modelMidstream {
		return nil, wire.Interrupted(ctx, errMidstream)
	}
	return answer(chat)
}

// StreamChat returns the answer of Chat word by word.
func (p *Provider) StreamChat(ctx context.Context, _ provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	if err := begin(ctx, chat.Model); err != nil {
		return nil, err
	}
	whole, err := answer(chat)
	if err != nil {
		return nil, err
	}
	s := &stream{ctx: ctx, events: events(whole)}
	switch chat.Model {
	case modelMidstream:
		s.events, s.err = s.events[:1], errMidstream
	case modelSlow:
		s.step = slowStep
	}
	return s, nil
}

// begin waits as the model does, and returns the error of a model that fails.
func begin(ctx context.Context, model string) error {
	provider.ReceiptOf(ctx).SetSent()
	switch model {
	case modelHang:
		<-ctx.Done()
	case modelSlow:
		pause(ctx, slowStart)
	}
	if ctx.Err() != nil {
		return wire.Interrupted(ctx, ctx.Err())
	}
	if e, fails := models[model]; fails {
		return &e
	}
	if !strings.HasPrefix(model, "sandbox") {
		return &provider.Error{
			Class: apierr.ClassPolicy, Status: http.StatusNotFound,
			Code: "model_not_found", Text: "the sandbox has no such model; its models begin with \"sandbox\"",
		}
	}
	return nil
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
