package control

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apierr"
)

// Relay proxies a call to a service, see proxy.Relay.
type Relay interface {
	Do(w http.ResponseWriter, r *http.Request, call proxy.Call) error
}

// Limiter limits the rate of sessions, see limit.Limiter.
type Limiter interface {
	Take(ctx context.Context, key, organization limit.Bucket) (limit.Verdict, error)
}

// Deciders checks that a person who is named as the decider may decide, see approver.Members.
type Deciders interface {
	CheckNamed(ctx context.Context, organization, ref, user string) error
}

// Portal is what the portal needs. All fields are required unless their comment says otherwise.
type Portal struct {
	Sessions *portal.Sessions
	// URL is where browsers reach the portal: scheme and host.
	URL *url.URL
	// Table holds the served routes, Upstreams the base URLs of their services by name.
	Table     route.Table
	Upstreams map[string]*url.URL
	Relay     Relay
	Limiter   Limiter
	// Members checks who decides on approvals; nil without the gateway.
	Members Deciders
	// Enforcer holds the calls of sessions to the plans of their organizations.
	Enforcer chain.Enforcer
	// Drain calls end once control drains, unless it is stopped before. It may be nil.
	Drain func(end func()) (stop func() bool)
}

const (
	openPath = portal.Prefix + "open/"
	apiPath  = portal.Prefix + "api"
	// cookieName is the cookie with the secret of a session.
	cookieName = "switchyard_portal"
	// pageHeader is a header that only a page of this origin can send: another one would have to ask first, and isn't
	// answered (Fetch Standard, section 3.3). Each request that changes something has it.
	pageHeader = "X-Switchyard-Portal"
	// secretSize is the length of the secret of a link or a session as text.
	secretSize = 43
)

// portalAdmin returns the operators' operations of the portal by path and method.
func (a *API) portalAdmin() map[string]map[string]chain.Handler {
	return map[string]map[string]chain.Handler{"/admin/v1/portal/sessions": {http.MethodPost: a.mintLink}}
}

// mountPortal mounts the links, the pages, and the operations that the pages call.
func (a *API) mountPortal(served *chain.Chain) error {
	pages, err := portal.Pages()
	if err != nil {
		return err
	}
	mountPages(served, portal.Prefix, pages)
	served.Mount(openPath+"{link}", map[string]chain.Handler{http.MethodGet: a.openLink})
	for path, methods := range a.portalRoutes() {
		served.Mount(apiPath+path, a.inSession(methods))
	}
	return nil
}

// mountPages mounts pages by path, of which the first is at a prefix.
func mountPages(served *chain.Chain, prefix string, pages map[string]http.Handler) {
	for path, page := range pages {
		pattern := path
		if path == prefix {
			pattern = path + "{$}" // not a prefix
		}
		served.Mount(pattern, map[string]chain.Handler{http.MethodGet: func(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
			page.ServeHTTP(w, r)
			return nil
		}})
	}
}

// sessionHandler serves a request of a session.
type sessionHandler func(w http.ResponseWriter, r *http.Request, l *chain.Line, s *portal.Session) error

// mintLink makes a link for an operator.
func (a *API) mintLink(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body struct {
		Organization string              `json:"organization_id"`
		Owner        string              `json:"owner_id"`
		User         string              `json:"user_id"`
		Scopes       []apikey.Permission `json:"scopes"`
		ReturnURL    string              `json:"return_url"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	text, until, err := a.options.Portal.Sessions.Mint(r.Context(), portal.Request{
		Organization: body.Organization, Owner: body.Owner, User: body.User, Scopes: body.Scopes, ReturnURL: body.ReturnURL,
	}, actor(r, l))
	if err != nil {
		return err
	}
	return write(w, http.StatusCreated, struct {
		URL       string    `json:"url"`
		ExpiresAt time.Time `json:"expires_at"`
	}{a.options.Portal.URL.JoinPath(openPath, text.Reveal()).String(), until})
}

// openLink opens the session of a link and redirects to the pages. The cookie is not sent with the request that follows
// if the link was on another site, which is why the pages need none.
func (a *API) openLink(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	if r.Method != http.MethodGet { // HEAD must not use up a link
		return chain.NotAllowed(w, r, http.MethodGet)
	}
	link := r.PathValue("link")
	if len(link) != secretSize {
		portal.Refuse(w)
		return nil
	}
	text, until, err := a.options.Portal.Sessions.Open(r.Context(), link)
	if errors.Is(err, portal.ErrLink) {
		portal.Refuse(w)
		return nil
	}
	if err != nil {
		return err
	}
	http.SetCookie(w, a.cookie(text.Reveal(), time.Until(until)))
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", portal.Prefix)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// cookie returns the cookie of a session for a time, or with a time below zero what removes it.
func (a *API) cookie(value string, lasts time.Duration) *http.Cookie {
	return sessionCookie(a.options.Portal.URL, "/portal", cookieName, value, lasts)
}

// sessionCookie returns a cookie for the pages below a path of an origin.
func sessionCookie(origin *url.URL, path, name, value string, lasts time.Duration) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure unless the origin is loopback without TLS, which the settings check.
		Name: name, Value: value, Path: path, MaxAge: int(lasts / time.Second),
		HttpOnly: true, Secure: origin.Scheme == "https", SameSite: http.SameSiteStrictMode,
	}
}

// sessionLimit is the rate of one session's requests.
var sessionLimit = limit.Limit{Requests: 600, Window: time.Minute, Burst: 120}

// inSession returns the handlers of a path, by method, which require a session, and that the request comes from one of the
// portal's own pages.
func (a *API) inSession(of map[string]sessionHandler) map[string]chain.Handler {
	handlers := make(map[string]chain.Handler, len(of))
	for method, next := range of {
		handlers[method] = a.session(method, next)
	}
	return handlers
}

func (a *API) session(method string, next sessionHandler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
		if r.Method != method {
			return chain.NotAllowed(w, r, method)
		}
		if err := fromPageOf(a.options.Portal.URL, r); err != nil {
			return err
		}
		cookie, err := r.Cookie(cookieName)
		if err != nil || len(cookie.Value) != secretSize {
			return portal.ErrSession
		}
		session, err := a.options.Portal.Sessions.Session(r.Context(), cookie.Value)
		if err != nil {
			return err
		}
		l.Organization, l.Key, l.Caller = session.Organization, session.ID, "portal"
		if _, err := a.options.Portal.Limiter.Take(r.Context(), limit.Bucket{Name: session.ID, Limit: sessionLimit}, limit.Bucket{}); err != nil {
			return err
		}
		return next(w, chain.ForOrganization(r, session.Organization), l, session)
	}
}

// fromPageOf refuses requests that a page of another origin made (cross-site request forgery). A browser tells the site of
// each request (Fetch Metadata), and the origin of those that change something.
func fromPageOf(origin *url.URL, r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site")
	foreign := site != "" && site != "same-origin"
	if r.Method != http.MethodGet {
		foreign = foreign || r.Header.Get(pageHeader) == "" || r.Header.Get("Origin") != origin.Scheme+"://"+origin.Host
	}
	if foreign {
		return apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "only pages of the same origin may call this")
	}
	return nil
}
