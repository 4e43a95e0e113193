//go:build !nocloud

package secretref

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	secretmanager "cloud.google.com/go/secretmanager/apiv1"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"gocloud.dev/runtimevar"
	"gocloud.dev/runtimevar/gcpsecretmanager"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"switchyard.dev/services/platform/testkit"
)

// parameterStore serves the one call of AWS's Parameter Store that is used. The name of a parameter in a hierarchy
// begins with a slash, as AWS requires.
func parameterStore(t *testing.T, secrets map[string]string) *httptest.Server {
	t.Helper()
	withoutAccount(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Name           string
			WithDecryption bool
		}
		_ = json.NewDecoder(r.Body).Decode(&asked)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		value, ok := secrets[asked.Name]
		switch {
		case r.Header.Get("X-Amz-Target") != "AmazonSSM.GetParameter":
			w.WriteHeader(http.StatusNotFound)
		case !ok:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type":"ParameterNotFound","message":"none"}`))
		case !asked.WithDecryption:
			_, _ = w.Write([]byte(`{"Parameter":{"Name":"n","Type":"SecureString","Value":"encrypted","Version":1}}`))
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"Parameter": map[string]any{
				"Name": asked.Name, "Type": "SecureString", "Value": value, "Version": 1, "LastModifiedDate": 1,
			}})
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return server
}

func TestParameterStore(t *testing.T) {
	const canary = "sk-canary-parameter-0123456789"
	server := parameterStore(t, map[string]string{"/byok/acme/openai": canary, "/byok/bolt/openai": "bolts", "byok-acme": "flat"})
	r, err := New(Options{Managers: []string{
		"awsparamstore:///byok/{organization}/?region=eu-west-1&anonymous=true&endpoint=" + url.QueryEscape(server.URL),
	}})
	if err != nil {
		t.Fatal(err)
	}
	value, err := r.Read(t.Context(), "acme", "awsparamstore:///byok/acme/openai")
	if err != nil || value.Reveal() != canary {
		t.Fatalf("its own: %q, %v", value.Reveal(), err)
	}
	if _, err := r.Read(t.Context(), "acme", "awsparamstore:///byok/acme/absent"); !errors.Is(err, ErrAbsent) {
		t.Errorf("absent: %v", err)
	}
	for _, reference := range []string{
		"awsparamstore:///byok/bolt/openai", "awsparamstore://byok/acme/openai", "awsparamstore:///byok/acme/../bolt/openai",
		"awsparamstore:///byok/acme/x/openai", "awsparamstore:///byok-acme",
	} {
		if _, err := r.Read(t.Context(), "acme", reference); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want a refusal", reference, err)
		}
	}
	server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // The client tries several times.
	defer cancel()
	_, err = r.Read(ctx, "acme", "awsparamstore:///byok/acme/openai")
	if err == nil || errors.Is(err, ErrAbsent) || errors.Is(err, ErrRefused) {
		t.Fatalf("away: %v, want an error that may pass", err)
	}
	testkit.NoLeak(t, canary, err.Error())
}

// Secret managers are asked by the way out that the service has, whatever proxies the environment names.
func TestManagersAreAskedByTheNetwork(t *testing.T) {
	server := parameterStore(t, map[string]string{"/byok/acme/openai": "sk-of-acme"})
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	var dialed []string
	dial := func(ctx context.Context, kind, address string) (net.Conn, error) {
		dialed = append(dialed, address)
		return new(net.Dialer).DialContext(ctx, kind, server.Listener.Addr().String())
	}
	const at = "awsparamstore:///byok/{organization}/?region=eu-west-1&anonymous=true&endpoint=http%3A%2F%2Fssm.example"
	r, err := New(Options{Managers: []string{at}, Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	value, err := r.Read(t.Context(), "acme", "awsparamstore:///byok/acme/openai")
	if err != nil || value.Reveal() != "sk-of-acme" || len(dialed) != 1 || dialed[0] != "ssm.example:80" {
		t.Errorf("%v, dialed %q; want the secret by the network", err, dialed)
	}
	r, err = New(Options{Managers: []string{"awsparamstore:///byok/{organization}/?wait=1s"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(t.Context(), "acme", "awsparamstore:///byok/acme/openai"); err == nil || !strings.Contains(err.Error(), `parameter "wait": want region`) {
		t.Errorf("an unknown parameter: %v", err)
	}
}

// googleSecrets serves the calls of Google's Secret Manager that its driver makes.
type googleSecrets struct {
	secretmanagerpb.UnimplementedSecretManagerServiceServer

	secrets map[string]string
}

func (g *googleSecrets) AccessSecretVersion(_ context.Context, m *secretmanagerpb.AccessSecretVersionRequest) (*secretmanagerpb.AccessSecretVersionResponse, error) {
	value, ok := g.secrets[m.GetName()]
	switch {
	case value == "denied":
		return nil, status.Error(codes.PermissionDenied, "no")
	case !ok:
		return nil, status.Error(codes.NotFound, "none")
	}
	return &secretmanagerpb.AccessSecretVersionResponse{Name: m.GetName(), Payload: &secretmanagerpb.SecretPayload{Data: []byte(value)}}, nil
}

func (g *googleSecrets) GetSecretVersion(_ context.Context, m *secretmanagerpb.GetSecretVersionRequest) (*secretmanagerpb.SecretVersion, error) {
	return &secretmanagerpb.SecretVersion{Name: m.GetName()}, nil
}

// serve listens on its own port, and returns an opener that connects to it.
func (g *googleSecrets) serve(t *testing.T) opener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	secretmanagerpb.RegisterSecretManagerServiceServer(server, g)
	var group sync.WaitGroup
	group.Go(func() { _ = server.Serve(listener) })
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	client, err := secretmanager.NewClient(t.Context(), option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		server.Stop()
		group.Wait()
	})
	mux := new(runtimevar.URLMux)
	mux.RegisterVariable(gcpsecretmanager.Scheme, &google{opener: &gcpsecretmanager.URLOpener{Client: client}})
	return opener{mux}
}

// Google's names have no folders: the organization is a part of the name.
func TestGoogleSecretManager(t *testing.T) {
	const canary = "sk-canary-google-0123456789"
	const at = "gcpsecretmanager://projects/my-project/secrets/"
	g := &googleSecrets{secrets: map[string]string{
		"projects/my-project/secrets/byok-acme__openai/versions/latest": canary + "\n",
		"projects/my-project/secrets/byok-acme__denied/versions/latest": "denied",
		"projects/my-project/secrets/byok-bolt__openai/versions/latest": "bolts",
	}}
	r, err := New(Options{Managers: []string{at + "byok-{organization}__"}})
	if err != nil {
		t.Fatal(err)
	}
	r.open = g.serve(t)
	value, err := r.Read(t.Context(), "acme", at+"byok-acme__openai")
	if err != nil || value.Reveal() != canary {
		t.Fatalf("its own: %q, %v", value.Reveal(), err)
	}
	if _, err := r.Read(t.Context(), "acme", at+"byok-acme__absent"); !errors.Is(err, ErrAbsent) {
		t.Errorf("absent: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = r.Read(ctx, "acme", at+"byok-acme__denied")
	if err == nil || errors.Is(err, ErrAbsent) || errors.Is(err, ErrRefused) {
		t.Fatalf("denied: %v, want an error that may pass", err)
	}
	testkit.NoLeak(t, canary, err.Error())
	for _, reference := range []string{
		at + "byok-bolt__openai", at + "byok-acme__a__openai", at + "byok-acme_openai", at + "other",
		"gcpsecretmanager://projects/their-project/secrets/byok-acme__openai", at + "byok-acme__openai/versions/1",
	} {
		if _, err := r.Read(t.Context(), "acme", reference); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want a refusal", reference, err)
		}
	}
}

// The failure to find credentials is not kept: they may be mounted later.
func TestGoogleWithoutCredentials(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", t.TempDir()+"/absent.json")
	r, err := New(Options{Managers: []string{"gcpsecretmanager://projects/my-project/secrets/byok-{organization}__"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := r.Read(t.Context(), "acme", "gcpsecretmanager://projects/my-project/secrets/byok-acme__openai")
		if err == nil || errors.Is(err, ErrAbsent) || errors.Is(err, ErrRefused) {
			t.Errorf("%v, want an error that may pass", err)
		}
	}
}
