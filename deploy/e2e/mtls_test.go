//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	grpctls "google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"switchyard.dev/deploy/dev/stack"
)

// All services present certificates to each other: their calls pass, the services behind the edge refuse callers
// without a trusted certificate, and certificates and authorities are renewed under load without a failed call.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	first, second := newAuthority(t), newAuthority(t)
	h := plan{name: "mtls", secure: first}.start(t)
	organization := unique("org")
	ai, notifications := h.keyByCommand(t, organization, "ai", "read"), h.keyByCommand(t, organization, "notifications", "write")
	outside := newClient(t, nil, first)

	t.Run("calls pass", func(t *testing.T) {
		callWant(t, outside, ai, h.URL(string(stack.Edge))+chatRoute, ask("sandbox", "hello"), http.StatusOK)
		target := h.FakeURL(stack.FakeWebhook) + "/mtls"
		accepted := callWant(t, outside, notifications, h.URL(string(stack.Edge))+sendRoute, object{
			"channels": []string{"webhook"}, "message": "hello", "target": object{"url": target},
		}, http.StatusAccepted)
		inside := newClient(t, first, first)
		// Notify hands it to webhook egress over gRPC.
		waitFor(t, waitTimeout, "the webhook", func() error {
			a := callWant(t, inside, h.Secrets().Service, h.URL(string(stack.Notify))+"/v1/notifications/sends/"+fmt.Sprint(accepted["notification_id"])+"?organization_id="+organization, nil, http.StatusOK)
			if text, _ := json.Marshal(a); !strings.Contains(string(text), `"delivered"`) {
				return errors.New(string(text))
			}
			return nil
		})
	})
	t.Run("other callers are refused", func(t *testing.T) { checkRefusals(t, h, first, second) })
	t.Run("renewal", func(t *testing.T) {
		traffic := h.startEdgeLoad(t, outside, ai, notifications)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			traffic.awaitMore(t, 40)
		}
		must(h.Certify(first)) // the same authority
		must(h.Trust(first, second))
		must(h.CertifyOne(stack.Gateway, second))
		must(h.CertifyOne(stack.WebhookEgress, second))
		must(h.CertifyOne(stack.Notify, second))
		traffic.stop()
		// The edge's certificate is still of the first one; then it is renewed too.
		if err := errors.Join(h.CertifyOne(stack.Edge, second), h.Trust(second)); err != nil {
			t.Fatal(err)
		}
		outside = newClient(t, nil, second)
		callWant(t, outside, ai, h.URL(string(stack.Edge))+chatRoute, ask("sandbox", "hello"), http.StatusOK)
		checkRefusals(t, h, second, first)
	})
	t.Run("a wrong certificate at the edge", func(t *testing.T) {
		edge := h.URL(string(stack.Edge)) + chatRoute
		if err := errors.Join(h.CertifyOne(stack.Gateway, second), h.CertifyOne(stack.Edge, first)); err != nil {
			t.Fatal(err)
		}
		if err := h.Kill(string(stack.Gateway)); err != nil { // so that new connections are made
			t.Fatal(err)
		}
		// The stack's probe trusts the first authority only, so Restart fails, and the loop below waits instead.
		_ = h.Restart(shortContext(t), string(stack.Gateway))
		either := newClient(t, nil, first, second)
		waitFor(t, waitTimeout, "the refusal", func() error {
			status, body := call(t, either, ai, edge, ask("sandbox", "hello"))
			if status != http.StatusBadGateway && status != http.StatusServiceUnavailable {
				return fmt.Errorf("answered %d: %s", status, body)
			}
			return nil
		})
		waitFor(t, waitTimeout, "the line with the reason in the edge's log", func() error {
			log, err := os.ReadFile(filepath.Join(h.logs(), "edge.log"))
			if err == nil && !strings.Contains(string(log), "tls: ") {
				err = errors.New("not there")
			}
			return err
		})
		if err := h.CertifyOne(stack.Edge, second); err != nil {
			t.Fatal(err)
		}
		waitFor(t, waitTimeout, "calls again", func() error {
			if status, body := call(t, either, ai, edge, ask("sandbox", "hello")); status != http.StatusOK {
				return fmt.Errorf("answered %d: %s", status, body)
			}
			return nil
		})
	})
}

func newAuthority(t *testing.T) *stack.Authority {
	t.Helper()
	a, err := stack.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// keyByCommand returns a new product key; it needs no running edge.
func (h *harness) keyByCommand(t *testing.T, organization, product, permission string) string {
	t.Helper()
	out, err := h.Command(t.Context(), stack.Edge, "keys", "create", "--org", organization, "--product", product, "--permission", permission, "--json").Output()
	var k productKey
	if err == nil {
		err = json.Unmarshal(out, &k)
	}
	if err != nil {
		t.Fatal(err)
	}
	knownSecrets.add("the product key "+k.ID, k.Key)
	return k.Key
}

// tlsConfig returns the configuration of a client that trusts some authorities and presents a certificate of one of
// them, if own is not nil.
func tlsConfig(t *testing.T, own *stack.Authority, trusted ...*stack.Authority) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	for _, a := range trusted {
		config.RootCAs.AppendCertsFromPEM([]byte(a.PEM))
	}
	if own == nil {
		return config
	}
	certificate, key, err := own.Issue("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	// A client would leave out a certificate that the server doesn't trust.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return config
}

func newClient(t *testing.T, own *stack.Authority, trusted ...*stack.Authority) *http.Client {
	t.Helper()
	return &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig(t, own, trusted...), DisableKeepAlives: true}}
}

// call posts a body, or gets for a nil one. A status of 0 is a failed handshake; the answer is the error then.
func call(t *testing.T, client *http.Client, token, url string, body any) (status int, answer []byte) {
	t.Helper()
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, reader(t, body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return response.StatusCode, answer
}

func callWant(t *testing.T, client *http.Client, token, url string, body any, want int) (answer map[string]any) {
	t.Helper()
	status, text := call(t, client, token, url, body)
	if status != want {
		t.Fatalf("%s answered %d: %s", url, status, shorten(text))
	}
	_ = json.NewDecoder(bytes.NewReader(text)).Decode(&answer)
	return answer
}

// checkRefusals checks whom the services refuse: only the open paths answer callers without a certificate, and callers
// with a certificate of another authority get nothing.
func checkRefusals(t *testing.T, h *harness, right, wrong *stack.Authority) {
	t.Helper()
	withoutCertificate, otherAuthority, trustedCaller := newClient(t, nil, right), newClient(t, wrong, right), newClient(t, right, right)
	for service, path := range map[stack.Service]string{
		stack.Gateway: "/v1/providers", stack.WebhookEgress: "/v1/endpoints?organization_id=o", stack.Notify: "/v1/notifications?organization_id=o&user_id=u",
	} {
		base, token := h.URL(string(service)), h.Secrets().Service
		if status, text := call(t, withoutCertificate, token, base+path, nil); status != http.StatusUnauthorized || !strings.Contains(string(text), "client certificate is required") {
			t.Errorf("%s without a certificate: %d: %s", service, status, text)
		}
		if status, text := call(t, otherAuthority, token, base+path, nil); status != 0 || !strings.Contains(string(text), "tls: ") {
			t.Errorf("%s with a certificate of another authority: %d: %s", service, status, text)
		}
		if status, text := call(t, trustedCaller, token, base+path, nil); status != http.StatusOK {
			t.Errorf("%s with a trusted certificate: %d: %s", service, status, text)
		}
		for _, open := range []string{"/health", "/health/live", "/health/ready", "/metrics"} {
			if status, text := call(t, withoutCertificate, "", base+open, nil); status != http.StatusOK {
				t.Errorf("%s%s without a certificate: %d: %s", service, open, status, text)
			}
		}
		for name, own := range map[string]*stack.Authority{"no certificate": nil, "a certificate of another authority": wrong, "a trusted certificate": right} {
			if err := health(t, h.GRPC(string(service)), tlsConfig(t, own, right)); (err == nil) != (own == right) {
				t.Errorf("%s over gRPC, %s: %v", service, name, err)
			}
		}
	}
}

func health(t *testing.T, address string, config *tls.Config) error {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(grpctls.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	return err
}

// edgeLoad is callers of the edge that repeat their calls until stop.
type edgeLoad struct {
	served atomic.Int64
	stop   func()
}

// awaitMore waits for n further calls.
func (l *edgeLoad) awaitMore(t *testing.T, n int64) {
	t.Helper()
	until := l.served.Load() + n
	waitFor(t, waitTimeout, "calls", func() error {
		if served := l.served.Load(); served < until {
			return fmt.Errorf("%d of %d", served, until)
		}
		return nil
	})
}

// startEdgeLoad starts callers of the edge. A call that fails fails the test.
func (h *harness) startEdgeLoad(t *testing.T, client *http.Client, ai, notifications string) *edgeLoad {
	t.Helper()
	l, done := &edgeLoad{}, make(chan struct{})
	var callers sync.WaitGroup
	for _, c := range []struct {
		token, route string
		body         object
		want         int
	}{
		{ai, chatRoute, ask("sandbox", "hello"), http.StatusOK},
		{notifications, sendRoute, object{"channels": []string{"webhook"}, "message": "hello", "target": object{"url": h.FakeURL(stack.FakeWebhook) + "/mtls"}}, http.StatusAccepted},
	} {
		callers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if status, text := call(t, client, c.token, h.URL(string(stack.Edge))+c.route, c.body); status != c.want {
					t.Errorf("%s: answered %d: %s", c.route, status, text)
					return
				}
				l.served.Add(1)
			}
		})
	}
	l.stop = sync.OnceFunc(func() {
		close(done)
		callers.Wait()
	})
	t.Cleanup(l.stop)
	return l
}

// shortContext returns a context for a call that may not succeed.
func shortContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout/6)
	t.Cleanup(cancel)
	return ctx
}
