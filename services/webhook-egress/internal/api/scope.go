package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// HeaderMismatch tells a caller that its idempotency key was first used for
// another request.
const HeaderMismatch = "Idempotency-Mismatch"

// defaultPage is the size of a page that asks for none.
const defaultPage = 50

// tenant is the organization that a request acts for that names none; it may be empty.
type tenant string

// scoped is a request that may name its organization and owner.
type scoped interface {
	GetOrganizationId() string
	GetOwnerId() string
}

// scope settles whom a request acts for, by its fields and the caller's headers.
func (t tenant) scope(ctx context.Context, r scoped) (organization, owner string, err error) {
	c := caller.From(ctx)
	if organization, err = c.OrganizationOr(r.GetOrganizationId(), string(t)); err != nil {
		return "", "", err
	}
	if owner, err = c.OwnerOf(r.GetOwnerId()); err != nil {
		return "", "", err
	}
	return organization, owner, nil
}

// keyed is a request that may carry an idempotency key.
type keyed interface {
	scoped
	GetIdempotencyKey() string
}

// keyedScope is scope and the idempotency key, by field or header.
func (t tenant) keyedScope(ctx context.Context, r keyed) (organization, owner, key string, err error) {
	if organization, owner, err = t.scope(ctx, r); err != nil {
		return "", "", "", err
	}
	key, err = caller.From(ctx).IdempotencyKeyOf(r.GetIdempotencyKey())
	return organization, owner, key, err
}

// accepted answers 202 for something new, 200 for a repeat, and tells when the
// repeat asks for something else.
func accepted(ctx context.Context, deduplicated, mismatch bool) {
	if mismatch {
		rpc.SetHeader(ctx, HeaderMismatch, "true")
	}
	if !deduplicated {
		rpc.SetStatus(ctx, http.StatusAccepted)
	}
}

// traceparent is the trace that a delivery's attempts continue; empty for none.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// limited is a request for a page.
type limited interface{ GetLimit() int32 }

func limitOf(r limited) int {
	if r.GetLimit() == 0 {
		return defaultPage
	}
	return int(r.GetLimit())
}

// cursor writes a place in one kind of list as text that means nothing to
// callers. Its value names the kind, so that no other list takes the text.
type cursor string

const (
	deliveryCursor cursor = "delivery:"
	endpointCursor cursor = "endpoint:"
	replayCursor   cursor = "replay:"
)

// encode writes the id below which the next page begins; zero is the end.
func (c cursor) encode(id delivery.ID) string {
	if id == (delivery.ID{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append([]byte(c), id[:]...))
}

// decode reads the id; no text is the list's beginning.
func (c cursor) decode(text string) (delivery.ID, error) {
	if text == "" {
		return delivery.LastID, nil
	}
	plain, err := base64.RawURLEncoding.Strict().DecodeString(text)
	id, ours := strings.CutPrefix(string(plain), string(c))
	if err != nil || !ours || len(id) != len(delivery.ID{}) {
		return delivery.ID{}, apierr.Invalid("cursor", "is not one that this list gave")
	}
	return delivery.ID([]byte(id)), nil
}
