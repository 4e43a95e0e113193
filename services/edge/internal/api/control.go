package api

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
)

// Control is the way to the role control.
type Control struct {
	// URL is its base URL.
	URL *url.URL
	// Relay passes calls on with their own credentials, see proxy.NewPlain.
	Relay Relay
	// Console reports whether the operators' console is relayed, too.
	Console bool
	// Proxies are those through which people reach the paths that need no key.
	Proxies decision.Proxies
	// Refresh returns once the verifiers know the changes of keys and tokens that were made before, or ctx ends.
	Refresh func(ctx context.Context)
}

const (
	// adminPrefix, portalPrefix and consolePrefix are what the paths of the role control begin with.
	adminPrefix   = "/admin/v1/"
	portalPrefix  = "/portal/"
	consolePrefix = "/console/"
	// pagePrefix and buttonPrefix are those of decisions by token, slackPrefix of what Slack sends.
	pagePrefix   = "/decisions/"
	buttonPrefix = "/v1/decisions/"
	slackPrefix  = "/slack/"
	// controlTime bounds the wait for the head of its response.
	controlTime = time.Minute
)

// mountControl relays the paths of the role control.
func (a *API) mountControl() {
	prefixes := []string{adminPrefix, portalPrefix}
	if a.options.Control.Console {
		prefixes = append(prefixes, consolePrefix)
	}
	for _, prefix := range prefixes {
		a.chain.MountBelow(prefix, a.control)
	}
	for _, prefix := range []string{pagePrefix, buttonPrefix, slackPrefix} {
		a.chain.MountBelow(prefix, a.public(decision.NewRate(publicPerSecond, publicBurst)))
	}
}

// publicPerSecond and publicBurst are the rate of an address on a path that needs no key: control sees the address of this
// replica only.
const publicPerSecond, publicBurst = 10, 100

// public passes calls on to the role control up to a rate for each address.
func (a *API) public(rate *decision.Rate) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
		if wait := rate.Take(a.options.Control.Proxies.Address(r), time.Now()); wait > 0 {
			e := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "there were too many requests from this address; try again later")
			e.RetryAfter = wait
			return e
		}
		return a.relayToControl(w, r, false)
	}
}

// control passes a call to the role control, which authenticates it. A change that an operator makes here is in force
// here when its response is complete; other replicas learn of it within a second.
func (a *API) control(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	return a.relayToControl(w, r, r.Method != http.MethodGet && r.Method != http.MethodHead)
}

// relayToControl relays a call; changes says whether the verifiers have to know of a change before the response is complete.
func (a *API) relayToControl(w http.ResponseWriter, r *http.Request, changes bool) error {
	way := a.options.Control
	return way.Relay.Do(w, r, proxy.Call{
		Target: sameTarget(way.URL, r.URL), Timeout: controlTime, Sharer: way.Proxies.Address(r),
		Follow: func(end context.CancelCauseFunc) func() { return a.untilDrain(r, end) },
		Inject: func(h http.Header) { chain.Inject(r.Context(), h) },
		Succeeded: func(bool) {
			if changes {
				way.Refresh(r.Context())
			}
		},
	})
}

// untilDrain ends a stream of events, which has no end of its own, when the edge drains.
func (a *API) untilDrain(r *http.Request, end context.CancelCauseFunc) (done func()) {
	if a.options.Drain == nil || !strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream") {
		return func() {}
	}
	stop := a.options.Drain(func() { end(errDrain) })
	return func() { stop() }
}

// sameTarget returns the URL of the same path and query below a base URL, with the escapes of the request.
func sameTarget(base, asked *url.URL) *url.URL {
	below := *base
	below.Path = strings.TrimSuffix(base.Path, "/") + asked.Path
	below.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + asked.EscapedPath()
	below.RawQuery = asked.RawQuery
	return &below
}
