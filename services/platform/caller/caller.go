// Package caller knows who calls a service: the identity carried by a context,
// the service tokens that prove it, and the rules by which an organization,
// owner or user named in a request must agree with the headers.
package caller

import (
	"context"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Identity headers; gRPC callers send the same names as metadata.
const (
	HeaderOrganization = "X-Organization-Id"
	HeaderKey          = "X-Key-Id"
	HeaderOwner        = "X-Owner-Id"
	HeaderUser         = "X-User-Id"
	HeaderRun          = "X-Run-Id"
	HeaderRequest      = "X-Request-Id"
	HeaderIdempotency  = "Idempotency-Key"
)

// Reasons of requests whose fields name another identity than their headers do.
const (
	ReasonOrganizationMismatch apierr.Reason = "organization_mismatch"
	ReasonIdentityMismatch     apierr.Reason = "identity_mismatch"
)

// maxID bounds every identifier that comes in a header.
const maxID = 256

// Role says what a caller may do on the capability face.
type Role string

// The roles. An operator may do whatever the others may: operators are few and audited, and a second token for reading
// what they administer would be shared around.
const (
	RolePublic   Role = "public"
	RoleService  Role = "service"
	RoleOperator Role = "operator"
	RoleSupport  Role = "support"
)

// May reports whether a caller of role r may use what requires the other role.
func (r Role) May(required Role) bool {
	return required == RolePublic || r == required || r == RoleOperator
}

// Caller is who sent a request and for whom. Empty fields were not said.
type Caller struct {
	// Name of the service token, for the log.
	Name string
	Role Role
	// Organization, Owner and User scope the request; Key is the customer key
	// the edge admitted; Run the session it belongs to.
	Organization, Key, Owner, User, Run string
	// IdempotencyKey of the Idempotency-Key header.
	IdempotencyKey string
}

type contextKey struct{}

// With returns a context that carries c.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From gives the caller of a request, or the zero Caller.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(contextKey{}).(Caller)
	return c
}

// Read fills the identity fields from headers or metadata; get returns one
// value or "". A value that is too long, not printable ASCII or like a key is
// refused: identifiers are stored and shown. An idempotency key may be random.
func (c *Caller) Read(get func(name string) string) error {
	for name, field := range map[string]*string{
		HeaderOrganization: &c.Organization,
		HeaderKey:          &c.Key,
		HeaderOwner:        &c.Owner,
		HeaderUser:         &c.User,
		HeaderRun:          &c.Run,
		HeaderIdempotency:  &c.IdempotencyKey,
	} {
		value := get(name)
		if !Printable(value) {
			return apierr.Invalid(name, "must be printable ASCII, at most 256 characters")
		}
		if name != HeaderIdempotency && screen.IDLooksLikeKey(value) || screen.HasKeyForm(value) {
			return apierr.Invalid(name, "seems to hold a key; send an identifier")
		}
		*field = value
	}
	return nil
}

// Printable reports whether s may be an identifier: printable ASCII without
// spaces, at most 256 characters. The empty string is.
func Printable(s string) bool {
	if len(s) > maxID {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// OrganizationOr is the organization a request acts for: the body's, or the
// header's where the body names none; fallback where neither does. A body that
// names another organization than the header is forbidden; none at all is invalid.
func (c Caller) OrganizationOr(body, fallback string) (string, error) {
	switch {
	case body != "" && c.Organization != "" && body != c.Organization:
		return "", apierr.New(apierr.KindForbidden, ReasonOrganizationMismatch,
			"organization_id: differs from the organization of the caller's key")
	case body != "":
		return body, nil
	case c.Organization != "":
		return c.Organization, nil
	case fallback != "":
		return fallback, nil
	}
	return "", apierr.Invalid("organization_id", "is required, in the request or as "+HeaderOrganization)
}

// OrganizationOf is OrganizationOr without a fallback.
func (c Caller) OrganizationOf(body string) (string, error) { return c.OrganizationOr(body, "") }

// OwnerOf is the owner a request names, by header or field; both and different is invalid.
func (c Caller) OwnerOf(field string) (string, error) {
	return agree(c.Owner, field, HeaderOwner, "owner_id")
}

// UserOf is the user a request names, by header or field; both and different is invalid.
func (c Caller) UserOf(field string) (string, error) {
	return agree(c.User, field, HeaderUser, "user_id")
}

// RunOf is the run a request belongs to, by header or field; both and different is invalid.
func (c Caller) RunOf(field string) (string, error) {
	return agree(c.Run, field, HeaderRun, "run_id")
}

// IdempotencyKeyOf is the request's key, by header or field; both and different is invalid.
func (c Caller) IdempotencyKeyOf(field string) (string, error) {
	return agree(c.IdempotencyKey, field, HeaderIdempotency, "idempotency_key")
}

func agree(header, field, headerName, fieldName string) (string, error) {
	switch {
	case header == "":
		return field, nil
	case field == "" || field == header:
		return header, nil
	}
	return "", apierr.New(apierr.KindInvalid, ReasonIdentityMismatch, fieldName+": differs from the header "+headerName)
}
