// Package caller identifies who calls a service. It holds the identity that a context carries, the service tokens that
// authenticate it, and the rules by which an organization, owner or user named in a request must agree with the
// headers.
package caller

import (
	"context"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Identity headers. gRPC callers send the same names as metadata.
const (
	HeaderOrganization = "X-Organization-Id"
	HeaderKey          = "X-Key-Id"
	HeaderKeyTerms     = "X-Key-Terms"
	HeaderOwner        = "X-Owner-Id"
	HeaderUser         = "X-User-Id"
	HeaderUserVerified = "X-User-Verified"
	HeaderOwnerSession = "X-Owner-Session"
	HeaderRun          = "X-Run-Id"
	HeaderRequest      = "X-Request-Id"
	HeaderIdempotency  = "Idempotency-Key"
	HeaderTags         = "X-Switchyard-Tags"
	HeaderCountMetric  = "X-Count-Metric"
)

// NameEdge is the name of the edge's service token. Only the edge may have calls counted for its customers.
const NameEdge = "edge"

// Verified is the value of HeaderUserVerified for a verified user, and of HeaderOwnerSession for a call by the owner. Any
// other value means neither.
const Verified = "true"

// Reasons for refusing requests whose fields name another identity than their headers.
const (
	ReasonOrganizationMismatch apierr.Reason = "organization_mismatch"
	ReasonIdentityMismatch     apierr.Reason = "identity_mismatch"
)

// maxID is the maximum length of an identifier in a header.
const maxID = 256

// Role determines which methods of a capability service a caller may use.
type Role string

// The roles. An operator may do everything the others may: operators are few and audited, and a second token for
// reading what they administer would be shared.
const (
	RolePublic   Role = "public"
	RoleService  Role = "service"
	RoleOperator Role = "operator"
	RoleSupport  Role = "support"
)

// May reports whether a caller with role r may use what requires the other role.
func (r Role) May(required Role) bool {
	return required == RolePublic || r == required || r == RoleOperator
}

// Caller is the identity of a caller. A field is empty if the caller didn't send it.
type Caller struct {
	// Name of the service token, for the log.
	Name string
	Role Role
	// Organization, Owner and User are on whose behalf the request is made. Key is the customer key that the edge
	// admitted, Run the session that the request belongs to.
	Organization, Key, Owner, User, Run string
	// UserVerified reports whether the edge has verified the user by the user's own token or session. A product key can
	// name a user, but doesn't verify it.
	UserVerified bool
	// OwnerSession reports whether the owner itself makes the request, by a session or token, and not the organization on
	// the owner's behalf. Such a request names no run, since runs are the whole organization's.
	OwnerSession bool
	// KeyTerms is the unparsed value of the X-Key-Terms header: the limits of the customer key.
	KeyTerms string
	// Tags is the unparsed value of the X-Switchyard-Tags header: labels of what the request costs.
	Tags string
	// CountMetric is what the customer's call counts as if it succeeds; empty for a call that counts nothing.
	CountMetric string
	// IdempotencyKey is the value of the Idempotency-Key header.
	IdempotencyKey string
}

type contextKey struct{}

// With returns a context that carries c.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From returns the caller in ctx, or the zero Caller.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(contextKey{}).(Caller)
	return c
}

// Read sets the identity fields from headers or metadata; get returns a header's value or "". It refuses a value that
// is too long, not printable ASCII or similar to a key, because identifiers are stored and displayed. An idempotency
// key may look random, but must not have the form of a known key. It does not check KeyTerms and Tags, which are no
// identifiers: the service that uses them parses them.
func (c *Caller) Read(get func(name string) string) error {
	for name, field := range map[string]*string{
		HeaderOrganization: &c.Organization,
		HeaderKey:          &c.Key,
		HeaderOwner:        &c.Owner,
		HeaderUser:         &c.User,
		HeaderRun:          &c.Run,
		HeaderIdempotency:  &c.IdempotencyKey,
		HeaderCountMetric:  &c.CountMetric,
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
	c.UserVerified = c.User != "" && get(HeaderUserVerified) == Verified
	c.OwnerSession = c.Owner != "" && get(HeaderOwnerSession) == Verified
	c.KeyTerms, c.Tags = get(HeaderKeyTerms), get(HeaderTags)
	return nil
}

// Printable reports whether s may be an identifier: printable ASCII without spaces, at most 256 characters. The empty
// string is permitted.
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

// OrganizationOr returns the organization that a request acts for: the one named in the body, else the one of the
// header, else fallback. An organization in the body that differs from the header's is a forbidden error; if all three
// are empty, the error is an invalid request.
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

// EveryOrganization refuses a list of every organization's records to all but operators, and where the header or the body
// names an organization.
func (c Caller) EveryOrganization(body string) error {
	switch {
	case c.Role != RoleOperator:
		return apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "all_organizations: needs the role "+string(RoleOperator))
	case c.Organization != "" || body != "":
		return apierr.Invalid("all_organizations", "must not be true where an organization is named")
	}
	return nil
}

// OrganizationOf is OrganizationOr without a fallback.
func (c Caller) OrganizationOf(body string) (string, error) { return c.OrganizationOr(body, "") }

// OwnerOf returns the owner named by the header or by field. Two different values are an error.
func (c Caller) OwnerOf(field string) (string, error) {
	return agree(c.Owner, field, HeaderOwner, "owner_id")
}

// UserOf returns the user named by the header or by field. Two different values are an error.
func (c Caller) UserOf(field string) (string, error) {
	return agree(c.User, field, HeaderUser, "user_id")
}

// RunOf returns the run named by the header or by field. Two different values are an error, and so is any run in an
// owner's session.
func (c Caller) RunOf(field string) (string, error) {
	if c.OwnerSession && (c.Run != "" || field != "") {
		return "", apierr.New(apierr.KindForbidden, apierr.ReasonForbidden,
			"run_id: an owner's session can't name a run, because runs belong to the whole organization")
	}
	return agree(c.Run, field, HeaderRun, "run_id")
}

// IdempotencyKeyOf returns the key given by the header or by field. Two different values are an error.
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
