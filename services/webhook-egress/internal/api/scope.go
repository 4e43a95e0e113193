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

// HeaderMismatch is set to true in the response to a repeat that differs from the first request with its idempotency
// key.
const HeaderMismatch = "Idempotency-Mismatch"

// defaultPage is the page size when a request sets no limit.
const defaultPage = 50

// tenant is the default organization, for requests that name none; it may be empty.
type tenant string

// scoped is a request that may name its organization and owner.
type scoped interface {
	GetOrganizationId() string
	GetOwnerId() string
}

// scope returns the organization and owner of a request, from its fields and the caller's headers.
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

// listed is a list that may be every organization's.
type listed interface {
	scoped
	GetAllOrganizations() bool
}

// listScope is scope, for lists: every reports that they are every organization's, and then organization is empty.
func (t tenant) listScope(ctx context.Context, r listed) (organization, owner string, every bool, err error) {
	if !r.GetAllOrganizations() {
		organization, owner, err = t.scope(ctx, r)
		return organization, owner, false, err
	}
	c := caller.From(ctx)
	if err := c.EveryOrganization(r.GetOrganizationId()); err != nil {
		return "", "", false, err
	}
	owner, err = c.OwnerOf(r.GetOwnerId())
	return "", owner, true, err
}

// refuseOwner refuses a caller that acts for an owner. what names what concerns the whole organization, such as
// "circuits".
func refuseOwner(ctx context.Context, what string) error {
	if caller.From(ctx).Owner == "" {
		return nil
	}
	return apierr.New(apierr.KindForbidden, apierr.ReasonForbidden,
		what+" concern the whole organization: a caller with an owner ("+caller.HeaderOwner+") has no access")
}

// keyed is a request that may carry an idempotency key.
type keyed interface {
	scoped
	GetIdempotencyKey() string
}

// keyedScope returns the scope and the idempotency key, from the field or the header.
func (t tenant) keyedScope(ctx context.Context, r keyed) (organization, owner, key string, err error) {
	if organization, owner, err = t.scope(ctx, r); err != nil {
		return "", "", "", err
	}
	key, err = caller.From(ctx).IdempotencyKeyOf(r.GetIdempotencyKey())
	return organization, owner, key, err
}

// accepted sets status 202 for a new resource; a repeat keeps 200. For a mismatch it sets HeaderMismatch.
func accepted(ctx context.Context, deduplicated, mismatch bool) {
	if mismatch {
		rpc.SetHeader(ctx, HeaderMismatch, "true")
	}
	if !deduplicated {
		rpc.SetStatus(ctx, http.StatusAccepted)
	}
}

// traceparent returns the trace context that a delivery's attempts continue; empty for none.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// limited is a request for one page of a list.
type limited interface{ GetLimit() int32 }

func limitOf(r limited) int {
	if r.GetLimit() == 0 {
		return defaultPage
	}
	return int(r.GetLimit())
}

// cursor encodes a position in one kind of list as opaque text. Its value names the kind, so that no other list
// accepts the text.
type cursor string

const (
	circuitCursor   cursor = "circuit:"
	deliveryCursor  cursor = "delivery:"
	endpointCursor  cursor = "endpoint:"
	eventTypeCursor cursor = "event-type:"
	replayCursor    cursor = "replay:"
)

// encode returns the cursor of the page that begins below id; the zero id is the end of the list.
func (c cursor) encode(id delivery.ID) string {
	if id == (delivery.ID{}) {
		return ""
	}
	return c.encodeText(string(id[:]))
}

// encodeText is encode for lists in the order of names; the empty name is the end of the list.
func (c cursor) encodeText(name string) string {
	if name == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(string(c) + name))
}

// decode returns the id in a cursor; an empty cursor is the beginning of the list.
func (c cursor) decode(text string) (delivery.ID, error) {
	if text == "" {
		return delivery.LastID, nil
	}
	id, err := c.decodeText(text)
	if err == nil && len(id) != len(delivery.ID{}) {
		err = errCursor
	}
	if err != nil {
		return delivery.ID{}, err
	}
	return delivery.ID([]byte(id)), nil
}

var errCursor = apierr.Invalid("cursor", "is not a cursor of this list")

// decodeText returns the name in a cursor; an empty cursor is the beginning of the list.
func (c cursor) decodeText(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	plain, err := base64.RawURLEncoding.Strict().DecodeString(text)
	name, ours := strings.CutPrefix(string(plain), string(c))
	if err != nil || !ours {
		return "", errCursor
	}
	return name, nil
}
