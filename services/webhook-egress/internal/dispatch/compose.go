package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// outgoing is the request of an attempt.
type outgoing struct {
	request Request
	auth    auth.Auth
	// hidden are the values that must not be stored or logged.
	hidden []string
}

// compose returns the request of an attempt at now, signed and with a fixed credential. Without something that the
// request needs, it returns false and the step of a delivery that waits for it.
func (e *Engine) compose(ctx context.Context, job *delivery.Job, now time.Time) (*outgoing, delivery.Step, bool) {
	signer := signing.Signer{Mode: job.SigningMode, Secrets: e.secrets(ctx, job, now)}
	if job.Endpoint != nil {
		signer.Schemes = job.Endpoint.Signatures
	}
	keyless := false
	if slices.Contains(signer.Schemes, signing.SchemeV1a) {
		signer.Key = e.o.Keys.Current(ctx)
		keyless = signer.Key == nil
	}
	if len(signer.Secrets) == 0 || keyless {
		return nil, e.o.Policy.Hold(job, delivery.FaultSigningSecretMissing), false
	}
	out := &outgoing{request: Request{URL: job.URL, Header: make(map[string]string, len(job.Headers)+12), Body: job.Body}}
	if err := e.addCustom(job, out); err != nil {
		e.o.Log.ErrorContext(ctx, "what a delivery needs cannot be opened; it waits", slog.String("delivery_id", job.ID.String()),
			slog.String("organization", job.Organization), slog.String("error", err.Error()))
		return nil, e.o.Policy.HoldAlone(job, delivery.FaultHeadersUnreadable), false
	}
	for _, s := range signer.Secrets {
		out.hidden = append(out.hidden, s.Reveal())
	}
	maps.Copy(out.request.Header, signer.Headers(signing.Message{ID: job.ID.String(), At: now, Body: job.Body}))
	return out, delivery.Step{}, true
}

// secrets returns the secrets that sign the job, the current one first: the organization's, or those of its endpoint.
func (e *Engine) secrets(ctx context.Context, job *delivery.Job, now time.Time) []secret.Value {
	if job.SigningMode != signing.EndpointBody {
		return e.o.Secrets.Of(ctx, job.Organization)
	}
	if job.Endpoint == nil || e.o.Opener == nil {
		return nil
	}
	sealed := [][]byte{job.Endpoint.Secret}
	for _, earlier := range job.Endpoint.Earlier {
		if now.Before(earlier.Until) {
			sealed = append(sealed, earlier.Sealed)
		}
	}
	var secrets []secret.Value
	for _, one := range sealed {
		text, err := e.o.Opener.Open(one, job.Endpoint.ID.String())
		if err != nil {
			e.o.Log.ErrorContext(ctx, "an endpoint's secret cannot be opened", slog.String("endpoint_id", job.Endpoint.ID.String()))
			return nil
		}
		secrets = append(secrets, secret.New(string(text)))
	}
	return secrets
}

// addCustom adds the headers of the endpoint, those of the delivery, which take precedence, and the endpoint's
// credential.
func (e *Engine) addCustom(job *delivery.Job, out *outgoing) error {
	if job.HeadersUnreadable {
		return errors.New("stored headers are malformed")
	}
	if err := e.addEndpointHeaders(job.Endpoint, out); err != nil {
		return err
	}
	maps.Copy(out.request.Header, job.Headers)
	if err := e.addSealed(job, out); err != nil {
		return err
	}
	return e.addAuth(job.Endpoint, out)
}

func (e *Engine) addEndpointHeaders(endpoint *delivery.JobEndpoint, out *outgoing) error {
	if endpoint == nil {
		return nil
	}
	for name, sealed := range endpoint.Headers {
		value, err := e.open(sealed, delivery.HeaderSealedFor(endpoint.ID, name))
		if err != nil {
			return fmt.Errorf("header %s of the endpoint: %w", name, err)
		}
		out.request.Header[name] = string(value)
		// The receiver may repeat a short ordinary value; hiding it would hide the receiver's whole text.
		if len(value) >= minSecret || delivery.CarriesCredential(name) {
			out.hidden = append(out.hidden, string(value))
		}
	}
	return nil
}

// addSealed adds the delivery's headers that carry credentials.
func (e *Engine) addSealed(job *delivery.Job, out *outgoing) error {
	if len(job.Sealed) == 0 {
		return nil
	}
	text, err := e.open(job.Sealed, job.SealedFor())
	if err != nil {
		return fmt.Errorf("sealed headers: %w", err)
	}
	var credentials map[string]string
	if err := json.Unmarshal(text, &credentials); err != nil {
		return errors.New("sealed headers are malformed")
	}
	for name, value := range credentials {
		out.request.Header[name] = value
		out.hidden = append(out.hidden, value)
	}
	return nil
}

func (e *Engine) addAuth(endpoint *delivery.JobEndpoint, out *outgoing) error {
	if endpoint == nil || len(endpoint.Auth) == 0 {
		return nil
	}
	text, err := e.open(endpoint.Auth, auth.SealedFor(endpoint.ID))
	if err != nil {
		return fmt.Errorf("authentication of the endpoint: %w", err)
	}
	if out.auth, err = auth.Decode(text); err != nil {
		return err
	}
	if out.auth.Kind == auth.MTLS {
		out.request.Client = &Client{Endpoint: endpoint.ID, Auth: out.auth}
		return nil
	}
	out.hidden = append(out.hidden, out.auth.Secret.Reveal())
	if value := out.auth.HeaderValue(); value != "" {
		out.credential(value)
	}
	return nil
}

// credential sets the header that authenticates the request.
func (o *outgoing) credential(value string) {
	o.request.Header[o.auth.SetsHeader()] = value
	o.hidden = append(o.hidden, value)
}

func (e *Engine) open(sealed []byte, owner string) ([]byte, error) {
	if e.o.Opener == nil {
		return nil, errors.New("no key to open it with")
	}
	return e.o.Opener.Open(sealed, owner)
}

// deliver makes the request, with an access token where the endpoint wants one.
func (e *Engine) deliver(ctx context.Context, job *delivery.Job, out *outgoing) Reply {
	if out.auth.Kind != auth.OAuth2 {
		return e.o.Sender.Send(ctx, out.request)
	}
	// The token and both requests share the time of one: the lease has no more.
	ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	token, err := e.o.Tokens.Get(ctx, job.Endpoint.ID, out.auth, secret.Value{})
	if err != nil {
		return Reply{Fault: delivery.FaultToken, Err: err}
	}
	out.credential("Bearer " + token.Reveal())
	reply := e.o.Sender.Send(ctx, out.request)
	if reply.Status != http.StatusUnauthorized {
		return reply
	}
	renewed, err := e.o.Tokens.Get(ctx, job.Endpoint.ID, out.auth, token)
	if err != nil {
		return reply // The endpoint's answer says more.
	}
	out.credential("Bearer " + renewed.Reveal())
	return e.o.Sender.Send(ctx, out.request)
}
