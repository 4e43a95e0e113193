package api

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/proxy"
)

// Control is the way to the role control.
type Control struct {
	// URL is its base URL.
	URL *url.URL
	// Relay passes calls on with their own credentials, see proxy.NewPlain.
	Relay Relay
	// Refresh returns once the verifier knows the changes of keys that were made before, or ctx ends.
	Refresh func(ctx context.Context)
}

const (
	// controlPrefix is what all paths of the role control begin with.
	controlPrefix = "/admin/v1/"
	// controlTime bounds the wait for the head of its response.
	controlTime = time.Minute
)

// mountControl relays the paths of the role control.
func (a *API) mountControl() { a.chain.MountBelow(controlPrefix, a.control) }

// control passes a call to the role control, which authenticates it. A change that an operator makes here is in force
// here when its response is complete; other replicas learn of it within a second.
func (a *API) control(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	way := a.options.Control
	return way.Relay.Do(w, r, proxy.Call{
		Target: sameTarget(way.URL, r.URL), Timeout: controlTime,
		Inject: func(h http.Header) { inject(r.Context(), h) },
		Succeeded: func() func() error {
			return func() error {
				if r.Method != http.MethodGet && r.Method != http.MethodHead {
					way.Refresh(r.Context())
				}
				return nil
			}
		},
	})
}

// sameTarget returns the URL of the same path and query below a base URL, with the escapes of the request.
func sameTarget(base, asked *url.URL) *url.URL {
	below := *base
	below.Path = strings.TrimSuffix(base.Path, "/") + asked.Path
	below.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + asked.EscapedPath()
	below.RawQuery = asked.RawQuery
	return &below
}
