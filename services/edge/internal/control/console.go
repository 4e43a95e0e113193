package control

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/console"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
)

// Console is what the operators' console needs. All fields are required unless their comment says otherwise.
type Console struct {
	Sessions *console.Sessions
	// URL is where operators' browsers reach the console: scheme and host.
	URL *url.URL
	// Table holds the served customers' routes, Upstreams the base URLs of the services by name.
	Table     route.Table
	Upstreams map[string]*url.URL
	// Relay calls the services with control's token of the role operator.
	Relay Relay
	// Plain passes on the gateway's own page and what it calls, with Token, which is control's.
	Plain   Relay
	Token   secret.Value
	Limiter Limiter
	// Drain calls end once control drains, unless it is stopped before. It may be nil.
	Drain func(end func()) (stop func() bool)
}

const (
	consoleAPI    = console.Prefix + "api"
	consoleCookie = "switchyard_console"
)

// mountConsole mounts the pages and the operations that they call.
func (a *API) mountConsole(served *chain.Chain) error {
	pages, err := console.Pages()
	if err != nil {
		return err
	}
	mountPages(served, console.Prefix, pages)
	for _, path := range []string{"/{$}", "/console"} {
		served.Mount(path, map[string]chain.Handler{http.MethodGet: redirectToConsole})
	}
	served.Mount(consoleAPI+"/session", map[string]chain.Handler{
		http.MethodPost: a.signIn, http.MethodGet: a.operating(a.showOperator), http.MethodDelete: a.operating(a.signOut),
	})
	served.Mount(consoleAPI+"/organizations", map[string]chain.Handler{http.MethodGet: a.operating(a.organizations)})
	a.mountOperations(served)
	a.mountServices(served)
	a.mountGateway(served)
	return nil
}

func redirectToConsole(w http.ResponseWriter, _ *http.Request, _ *chain.Line) error {
	w.Header().Set("Location", console.Prefix)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// operatorHandler serves a request of an operator's session.
type operatorHandler func(w http.ResponseWriter, r *http.Request, l *chain.Line, s *console.Session) error

// signInLimit is the rate of sign-ins from one address.
var signInLimit = limit.Limit{Requests: 30, Window: time.Minute, Burst: 10}

// signIn opens a session with an operator's token.
func (a *API) signIn(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	c := a.options.Console
	if err := fromPageOf(c.URL, r); err != nil {
		return err
	}
	if err := c.admitSignIn(r); err != nil {
		return err
	}
	var body struct {
		Token string `json:"token"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	text, until, err := c.Sessions.SignIn(r.Context(), body.Token, r.Header.Get(caller.HeaderRequest))
	if err != nil {
		return err
	}
	http.SetCookie(w, c.cookie(text.Reveal(), time.Until(until)))
	return write(w, http.StatusCreated, struct {
		EndsAt time.Time `json:"ends_at"`
	}{until})
}

// admitSignIn limits the rate of sign-ins from the address of the connection.
func (c *Console) admitSignIn(r *http.Request) error {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	_, err = c.Limiter.Take(r.Context(), limit.Bucket{Name: "console sign-in from " + host, Limit: signInLimit}, limit.Bucket{})
	if limited, ok := errors.AsType[*apierr.Error](err); ok && limited.Kind == apierr.KindRateLimited {
		e := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "there were too many sign-ins from this address; try again later")
		e.RetryAfter = limited.RetryAfter
		return e
	}
	return err
}

// cookie returns the cookie of a session for a time, or with a time below zero what removes it.
func (c *Console) cookie(value string, lasts time.Duration) *http.Cookie {
	return sessionCookie(c.URL, "/console", consoleCookie, value, lasts)
}

// operating returns the handler of an operation that requires an operator's session, and that the request comes from one of
// the console's own pages.
func (a *API) operating(next operatorHandler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
		c := a.options.Console
		if r.Method == http.MethodHead {
			return chain.NotAllowed(w, r, http.MethodGet)
		}
		if err := fromPageOf(c.URL, r); err != nil {
			return err
		}
		cookie, err := r.Cookie(consoleCookie)
		if err != nil || len(cookie.Value) != secretSize {
			return console.ErrSession
		}
		session, err := c.Sessions.Session(r.Context(), cookie.Value)
		if err != nil {
			return err
		}
		l.Key, l.Caller = session.ID, session.Operator
		if _, err := c.Limiter.Take(r.Context(), limit.Bucket{Name: session.ID, Limit: sessionLimit}, limit.Bucket{}); err != nil {
			return err
		}
		return next(w, r, l, session)
	}
}

// showOperator answers who has signed in, and what keys may have.
func (a *API) showOperator(w http.ResponseWriter, _ *http.Request, _ *chain.Line, s *console.Session) error {
	return write(w, http.StatusOK, struct {
		Operator    string              `json:"operator"`
		Scopes      []apikey.Permission `json:"scopes"`
		Permissions []apikey.Permission `json:"permissions"`
		Products    []string            `json:"products"`
		EndsAt      time.Time           `json:"ends_at"`
	}{
		s.Operator, operatorScopes,
		append([]apikey.Permission{apikey.Read, apikey.Write}, apikey.Scopes()...), a.options.Console.Table.Products(), s.EndsAt,
	})
}

// signOut ends the session.
func (a *API) signOut(w http.ResponseWriter, r *http.Request, _ *chain.Line, _ *console.Session) error {
	cookie, err := r.Cookie(consoleCookie)
	if err != nil {
		return console.ErrSession
	}
	if err := a.options.Console.Sessions.End(r.Context(), cookie.Value); err != nil {
		return err
	}
	http.SetCookie(w, a.options.Console.cookie("", -time.Second))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// organizations lists the organizations that have a key, those whose names begin with the query's prefix.
func (a *API) organizations(w http.ResponseWriter, r *http.Request, _ *chain.Line, _ *console.Session) error {
	q, after, err := readPage[string](r, "prefix")
	if err != nil {
		return err
	}
	found, err := a.options.Console.Sessions.Organizations(r.Context(), q.Get("prefix"), after.value, after.limit+1)
	if err != nil {
		return err
	}
	type organization struct {
		ID   string `json:"organization_id"`
		Plan string `json:"plan"`
	}
	answer := struct {
		Organizations []organization `json:"organizations"`
		NextCursor    string         `json:"next_cursor"`
	}{Organizations: []organization{}}
	for i, o := range found {
		if i == after.limit {
			answer.NextCursor = cursor(found[i-1].ID)
			break
		}
		answer.Organizations = append(answer.Organizations, organization(o))
	}
	return write(w, http.StatusOK, answer)
}

// operatorScopes are what an operator may do in an organization's place. Inboxes are people's own: operators read them only.
var operatorScopes = []apikey.Permission{
	"webhooks:*", readUsage, "ai:approvals:read", decideApprovals, readApprovers, writeApprovers, "alerts:*", "notifications:sends:read", "notifications:inbox:read", "notifications:push:read",
}

// actingFor returns the session of the portal's pages that an operator's session is in an organization, with the owner and
// the user that the request names. An event stream can name its user in the query only.
func actingFor(r *http.Request, s *console.Session) (*portal.Session, error) {
	acting := &portal.Session{
		ID: s.ID, Operator: s.Operator, Organization: r.PathValue("organization"), Scopes: operatorScopes, ExpiresAt: s.IdleAt,
		Owner: r.Header.Get(caller.HeaderOwner), User: r.Header.Get(caller.HeaderUser),
	}
	if acting.User == "" {
		acting.User = r.URL.Query().Get("user_id")
	}
	err := checkIdentities(map[string]string{"organization_id": acting.Organization, "owner_id": acting.Owner, "user_id": acting.User})
	return acting, err
}

// checkIdentities refuses identities, by the names of their fields, that can't be any's.
func checkIdentities(identities map[string]string) error {
	for field, value := range identities {
		if !caller.Printable(value) {
			return apierr.Invalid(field, "must be printable ASCII without spaces, at most 256 characters")
		}
		if err := identifiers(field, value); err != nil {
			return err
		}
	}
	return nil
}
