//go:build !nocloud

package secretref

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"sync"

	secretmanager "cloud.google.com/go/secretmanager/apiv1"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"gocloud.dev/gcerrors"
	"gocloud.dev/gcp"
	"gocloud.dev/runtimevar"
	"gocloud.dev/runtimevar/awsparamstore"
	"gocloud.dev/runtimevar/awssecretsmanager"
	"gocloud.dev/runtimevar/gcpsecretmanager"
	"golang.org/x/oauth2"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"switchyard.dev/services/platform/screen"
)

// driversBuilt reports whether this build can read from secret managers.
const driversBuilt = true

// opener reads from secret managers.
type opener struct{ mux *runtimevar.URLMux }

func newOpener(dial Dial) opener {
	mux := new(runtimevar.URLMux)
	mux.RegisterVariable(awssecretsmanager.Scheme, &amazon{dial, func(c aws.Config, name string) (*runtimevar.Variable, error) {
		return awssecretsmanager.OpenVariable(awssecretsmanager.Dial(c), name, runtimevar.StringDecoder, nil)
	}})
	mux.RegisterVariable(awsparamstore.Scheme, &amazon{dial, func(c aws.Config, name string) (*runtimevar.Variable, error) {
		return awsparamstore.OpenVariable(awsparamstore.Dial(c), name, runtimevar.StringDecoder, nil)
	}})
	mux.RegisterVariable(gcpsecretmanager.Scheme, &google{dial: dial})
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

// amazon opens secrets at AWS. The library's own openers go out by proxies of the environment.
type amazon struct {
	dial Dial
	open func(c aws.Config, name string) (*runtimevar.Variable, error)
}

// OpenVariableURL implements runtimevar.VariableURLOpener.
func (a *amazon) OpenVariableURL(ctx context.Context, u *url.URL) (*runtimevar.Variable, error) {
	c, err := a.config(ctx, u.Query())
	if err != nil {
		return nil, err
	}
	return a.open(c, path.Join(u.Host, u.Path))
}

// config returns the configuration that the operator's parameters describe.
func (a *amazon) config(ctx context.Context, parameters url.Values) (aws.Config, error) {
	var options []func(*config.LoadOptions) error
	if a.dial != nil {
		options = append(options, config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.Proxy, t.DialContext = nil, a.dial
		})))
	}
	role := ""
	for name := range parameters {
		switch value := parameters.Get(name); name {
		case "decoder":
		case "region":
			options = append(options, config.WithRegion(value))
		case "profile":
			options = append(options, config.WithSharedConfigProfile(value))
		case "endpoint":
			options = append(options, config.WithBaseEndpoint(value))
		case "anonymous":
			options = append(options, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
		case "role":
			role = value
		default:
			return aws.Config{}, fmt.Errorf("parameter %s: want region, profile, endpoint, anonymous or role", screen.Quote(name))
		}
	}
	c, err := config.LoadDefaultConfig(ctx, options...)
	if err == nil && role != "" {
		c.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(c), role))
	}
	return c, err
}

// google opens secrets in Google's Secret Manager. The library's own opener keeps a failure to find credentials
// permanently; this one tries again.
type google struct {
	dial Dial

	mu     sync.Mutex
	opener *gcpsecretmanager.URLOpener
}

// OpenVariableURL implements runtimevar.VariableURLOpener.
func (g *google) OpenVariableURL(ctx context.Context, u *url.URL) (*runtimevar.Variable, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opener == nil {
		client, err := g.connect(ctx)
		if err != nil {
			return nil, err
		}
		g.opener = &gcpsecretmanager.URLOpener{Client: client}
	}
	return g.opener.OpenVariableURL(ctx, u)
}

func (g *google) connect(ctx context.Context) (*secretmanager.Client, error) {
	var options []option.ClientOption
	if g.dial != nil {
		ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: &http.Transport{DialContext: g.dial}})
		connect := func(ctx context.Context, address string) (net.Conn, error) { return g.dial(ctx, "tcp", address) }
		options = append(options, option.WithGRPCDialOption(grpc.WithContextDialer(connect)))
	}
	found, err := gcp.DefaultCredentials(ctx)
	if err != nil {
		return nil, fmt.Errorf("Google credentials: %w", err) //nolint:staticcheck // A name.
	}
	client, err := secretmanager.NewClient(ctx, append(options,
		option.WithGRPCDialOption(grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(nil, ""))),
		option.WithTokenSource(found.TokenSource))...)
	if err != nil {
		return nil, fmt.Errorf("dial Secret Manager: %w", err)
	}
	return client, nil
}
