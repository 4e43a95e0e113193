//go:build !nocloud

package secretref

import (
	"context"
	"fmt"
	"net/url"
	"sync"

	"gocloud.dev/gcerrors"
	"gocloud.dev/gcp"
	"gocloud.dev/runtimevar"
	"gocloud.dev/runtimevar/awsparamstore"
	"gocloud.dev/runtimevar/awssecretsmanager"
	"gocloud.dev/runtimevar/gcpsecretmanager"
)

// driversBuilt reports whether this build can read from secret managers.
const driversBuilt = true

// opener reads from secret managers.
type opener struct{ mux *runtimevar.URLMux }

func newOpener() opener {
	mux := new(runtimevar.URLMux)
	mux.RegisterVariable(awssecretsmanager.Scheme, new(awssecretsmanager.URLOpener))
	mux.RegisterVariable(awsparamstore.Scheme, new(awsparamstore.URLOpener))
	mux.RegisterVariable(gcpsecretmanager.Scheme, new(google))
	return opener{mux}
}

// read reads a secret once. A runtimevar variable would watch for changes; callers reread what they keep instead.
func (o opener) read(ctx context.Context, at string) (string, error) {
	// Clients outlive the call that made them.
	variable, err := o.mux.OpenVariable(context.WithoutCancel(ctx), at)
	if err != nil {
		return "", fmt.Errorf("open secret manager: %w", err)
	}
	defer variable.Close()               //nolint:errcheck // Nothing was written.
	snapshot, err := variable.Watch(ctx) // Latest would wait until a failure is over.
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound:
		return "", ErrAbsent
	case err != nil:
		return "", fmt.Errorf("ask secret manager: %w", err)
	}
	text, ok := snapshot.Value.(string)
	if !ok {
		return "", ErrAbsent
	}
	return text, nil
}

// google opens secrets in Google's Secret Manager. The library's own opener keeps a failure to find credentials
// permanently; this one tries again.
type google struct {
	mu     sync.Mutex
	opener *gcpsecretmanager.URLOpener
}

// OpenVariableURL implements runtimevar.VariableURLOpener.
func (g *google) OpenVariableURL(ctx context.Context, u *url.URL) (*runtimevar.Variable, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opener == nil {
		credentials, err := gcp.DefaultCredentials(ctx)
		if err != nil {
			return nil, fmt.Errorf("Google credentials: %w", err) //nolint:staticcheck // A name.
		}
		client, _, err := gcpsecretmanager.Dial(ctx, credentials.TokenSource)
		if err != nil {
			return nil, fmt.Errorf("dial Secret Manager: %w", err)
		}
		g.opener = &gcpsecretmanager.URLOpener{Client: client}
	}
	return g.opener.OpenVariableURL(ctx, u)
}
