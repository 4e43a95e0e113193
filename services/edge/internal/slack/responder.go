package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/netguard"
)

const (
	// queued bounds the answers that wait, posters how many are posted at once, postTime each of them.
	queued, posters, postTime = 128, 4, 5 * time.Second
	// maxURL bounds the address of an answer in bytes.
	maxURL = 2048
)

// hosts are where answers are posted to, and nowhere else.
var hosts = map[string]bool{"hooks.slack.com": true, "hooks.slack-gov.com": true}

// Responder posts answers that only the person sees who pressed a button. It is safe for concurrent use.
type Responder struct {
	transport http.RoundTripper
	log       *slog.Logger
	answers   chan answer
}

type answer struct{ to, text string }

// NewResponder returns a Responder that posts nothing until Run. The transport must not connect to inner addresses.
func NewResponder(transport http.RoundTripper, log *slog.Logger) *Responder {
	return &Responder{transport, log, make(chan answer, queued)}
}

// Answer reports whether it has queued a text for the person of an interaction: not without an address that answers may go
// to, or room. An answer is a courtesy, and nothing depends on it.
func (r *Responder) Answer(i Interaction, text string) bool {
	if !mayAnswer(i.ResponseURL) {
		return false
	}
	select {
	case r.answers <- answer{i.ResponseURL, text}:
		return true
	default:
		return false
	}
}

// mayAnswer reports whether an address is one of Slack's.
func mayAnswer(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= maxURL && u.Scheme == "https" && hosts[u.Host] && u.User == nil && u.Opaque == "" && u.Fragment == ""
}

// Run posts answers until ctx ends. It is a part of the service's lifecycle.
func (r *Responder) Run(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(posters)
	defer func() { _ = group.Wait() }() // None of them fails.
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-r.answers:
			group.Go(func() error {
				if err := r.post(ctx, a); err != nil && ctx.Err() == nil {
					r.log.WarnContext(ctx, "an answer to a click in Slack is lost", slog.String("error", err.Error()))
				}
				return nil
			})
		}
	}
}

// post posts an answer once. The address is a credential: no error repeats it.
func (r *Responder) post(ctx context.Context, a answer) error {
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	body, err := json.Marshal(map[string]any{"response_type": "ephemeral", "replace_original": false, "text": a.text})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.to, bytes.NewReader(body))
	if err != nil {
		return errors.New("answer: the address can't be used")
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := netguard.ReadStart(response, 1<<10); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("answer: Slack answered %d", response.StatusCode)
	}
	return nil
}
