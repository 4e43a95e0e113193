package dispatch_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

const credentialCanary = "canary-credential-0123456789"

// subscriber is an endpoint in a world that can open what is sealed.
type subscriber struct {
	*world

	box *seal.Box
	n   *node
	to  *receiver
}

func newSubscriber(t *testing.T, to *receiver, also ...*receiver) *subscriber {
	t.Helper()
	box, err := seal.New(secret.New(strings.Repeat("ab", 32)), "webhook")
	if err != nil {
		t.Fatal(err)
	}
	s := &subscriber{world: newWorld(t, append(also, to)...), box: box, to: to}
	s.opener, s.sealer = box, box
	return s
}

// endpoint returns an endpoint with headers and an authentication, both sealed.
func (s *subscriber) endpoint(headers map[string]string, a auth.Auth) delivery.JobEndpoint {
	s.t.Helper()
	e := delivery.JobEndpoint{ID: delivery.NewID(time.Now()), Headers: make(map[string][]byte)}
	for name, value := range headers {
		e.Headers[name] = s.box.Seal([]byte(value), delivery.HeaderSealedFor(e.ID, name))
	}
	if a.Kind != "" {
		text, err := a.Encode()
		if err != nil {
			s.t.Fatal(err)
		}
		e.Auth = s.box.Seal(text, auth.SealedFor(e.ID))
	}
	return e
}

// insert stores the endpoint: a replica that takes up a delivery reads it there.
func (s *subscriber) insert(e delivery.JobEndpoint) {
	s.t.Helper()
	headers, err := json.Marshal(e.Headers)
	if err != nil {
		s.t.Fatal(err)
	}
	testkit.Exec(s.t, s.pool, `WITH own AS (
			INSERT INTO flow (organization_id, scheme, host, port, endpoint_id) VALUES ('acme', 'http', '127.0.0.1', 80, $1) RETURNING flow_id)
		INSERT INTO endpoints (id, organization_id, url, flow_id, event_types, signing_mode, custom_headers, auth, sealed_auth, signatures,
			created_at, updated_at)
		SELECT $1, 'acme', 'http://127.0.0.1/', flow_id, '{e}', $2, nullif($3::jsonb, 'null'), '{}', $4, coalesce($5, '{spec,v1}'::text[]), now(), now() FROM own`,
		e.ID.String(), signing.OrgTimestamp, headers, e.Auth, e.Signatures)
}

// test sends one delivery to the endpoint and returns its end.
func (s *subscriber) test(e delivery.JobEndpoint) (delivery.Record, *delivery.Attempt) {
	s.t.Helper()
	if s.n == nil {
		s.n = s.start()
	}
	record, attempt, err := s.n.service.SendTest(s.t.Context(), delivery.TestDelivery{
		Organization: "acme", URL: s.to.URL + "/hook", EventType: "e", SigningMode: signing.OrgTimestamp, Payload: []byte(`{}`), Endpoint: e,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return record, attempt
}

// last is the newest request of a receiver.
func (r *receiver) last() *http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests[len(r.requests)-1]
}

// echo answers with the request's header values.
func echo(w http.ResponseWriter, r *http.Request) {
	for _, values := range r.Header {
		_, _ = fmt.Fprintln(w, values)
	}
}

// An endpoint gets its headers and its credential. What the receiver repeats of them is not kept, and neither the store
// nor the log has them.
func TestEndpointHeadersAndCredentials(t *testing.T) {
	t.Parallel()
	made := func(a auth.Auth, err error) auth.Auth {
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for name, tt := range map[string]struct {
		auth         auth.Auth
		header, want string
	}{
		"none":   {auth.Auth{}, "Authorization", ""},
		"bearer": {made(auth.NewBearer(credentialCanary)), "Authorization", "Bearer " + credentialCanary},
		"basic": {
			made(auth.NewBasic("ann", credentialCanary)), "Authorization",
			"Basic " + base64.StdEncoding.EncodeToString([]byte("ann:"+credentialCanary)),
		},
		"header": {made(auth.NewHeader("x-key", credentialCanary)), "X-Key", credentialCanary},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, echo)
			s := newSubscriber(t, r)
			logged := &lockedBuffer{}
			s.log = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
			record, attempt := s.test(s.endpoint(map[string]string{"X-Env": "prod", "X-Tenant": credentialCanary + "-tenant"}, tt.auth))
			if record.Status != delivery.StatusDelivered {
				t.Fatalf("record %+v", record)
			}
			got := r.last().Header
			if got.Get(tt.header) != tt.want || got.Get("X-Tenant") != credentialCanary+"-tenant" || got.Get("X-Env") != "prod" {
				t.Errorf("headers %v, want %s: %s", got, tt.header, tt.want)
			}
			if !strings.Contains(attempt.ResponseBody, "prod") || !strings.Contains(attempt.ResponseBody, "[redacted]") {
				t.Errorf("kept %q", attempt.ResponseBody)
			}
			testkit.NoLeak(t, credentialCanary, s.everything()+logged.String())
			if tt.want != "" {
				testkit.NoLeak(t, tt.want, attempt.ResponseBody)
			}
		})
	}
}

// lockedBuffer collects a log.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// What can't be opened is not sent without: the delivery waits.
func TestUnreadableAccessIsHeld(t *testing.T) {
	t.Parallel()
	bearer, err := auth.NewBearer(credentialCanary)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*delivery.JobEndpoint){
		"a header of another":   func(e *delivery.JobEndpoint) { e.Headers["X-B"] = e.Headers["X-A"] },
		"the other's auth":      func(e *delivery.JobEndpoint) { e.ID = delivery.NewID(time.Now()); e.Headers = nil },
		"a header as the auth":  func(e *delivery.JobEndpoint) { e.Auth = e.Headers["X-A"] },
		"a damaged auth":        func(e *delivery.JobEndpoint) { e.Auth[5] ^= 1 },
		"v1a without any key":   func(e *delivery.JobEndpoint) { e.Signatures = []string{"spec", "v1a"} },
		"an auth that is empty": func(e *delivery.JobEndpoint) { e.Auth = []byte{0} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, nil)
			s := newSubscriber(t, r)
			e := s.endpoint(map[string]string{"X-A": "a"}, bearer)
			spoil(&e)
			s.insert(e)
			s.n = s.start()
			want := "sealed_headers_unreadable"
			if name == "v1a without any key" {
				want = "signing_secret_missing"
			}
			var sending sync.WaitGroup
			sending.Go(func() {
				_, _, _ = s.n.service.SendTest(t.Context(), delivery.TestDelivery{
					Organization: "acme", URL: r.URL, EventType: "e", SigningMode: signing.OrgTimestamp, Payload: []byte(`{}`), Endpoint: e,
				})
			})
			until(t, "it is held for "+want, func() bool {
				return s.count("SELECT count(*) FROM deliveries d JOIN flow f USING (flow_id) WHERE d.last_error = $1 OR f.parked_reason = $1", want) == 1
			})
			s.exec("UPDATE deliveries SET deadline_at = now()") // Ends the wait.
			s.exec("UPDATE delivery_queue SET deadline_at = now()")
			if _, err := s.store.ExpireDue(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
			sending.Wait()
			if n := r.count(); n != 0 {
				t.Errorf("%d requests arrived", n)
			}
		})
	}
}

// A signature with the service's own key is verified by its public half.
func TestAsymmetricSignature(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(signing.PrivatePrefix+base64.StdEncoding.EncodeToString(private)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t, nil)
	s := newSubscriber(t, r)
	if s.keys, err = signing.OpenKeys(secret.File(file), s.log); err != nil {
		t.Fatal(err)
	}
	e := s.endpoint(nil, auth.Auth{})
	e.Signatures = []string{"spec", "v1a"}
	s.test(e)
	header := r.last().Header
	encoded, ok := strings.CutPrefix(header.Get("Webhook-Signature"), "v1a,")
	signature, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || !ed25519.Verify(public, []byte(header.Get("Webhook-Id")+"."+header.Get("Webhook-Timestamp")+".{}"), signature) {
		t.Errorf("signature %s", header.Get("Webhook-Signature"))
	}
}

// tokenAuth returns an authentication by tokens of a server.
func tokenAuth(t *testing.T, server *receiver) auth.Auth {
	t.Helper()
	a, err := auth.NewOAuth2(auth.Info{TokenURL: server.URL, ClientID: "c"}, credentialCanary)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// numbered answers with tokens that have numbers.
func numbered(issued *atomic.Int32) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"access-token-%d","token_type":"Bearer","expires_in":3600}`, issued.Add(1))
	}
}

// A token is used until the endpoint refuses it. Then it is renewed once, within the same attempt.
func TestTokenIsRenewedAfter401(t *testing.T) {
	t.Parallel()
	var issued, refused atomic.Int32
	tokens := newReceiver(t, numbered(&issued))
	r := newReceiver(t, func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Authorization") <= fmt.Sprintf("Bearer access-token-%d", refused.Load()) {
			w.WriteHeader(http.StatusUnauthorized)
		}
		echo(w, q)
	})
	s := newSubscriber(t, r, tokens)
	var ahead atomic.Int64
	s.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	e := s.endpoint(nil, tokenAuth(t, tokens))
	try := func(what string, status delivery.Status, code, requests int) {
		t.Helper()
		record, attempt := s.test(e)
		if record.Status != status || attempt == nil || attempt.ResponseCode != code || attempt.Number != 1 {
			t.Errorf("%s: %s, attempt %+v", what, record.Status, attempt)
		}
		if n := r.count(); n != requests {
			t.Errorf("%s: %d requests so far, want %d", what, n, requests)
		}
	}
	try("the first", delivery.StatusDelivered, 200, 1)
	try("with the same token", delivery.StatusDelivered, 200, 2)
	refused.Store(1)
	ahead.Store(int64(2 * time.Second))
	try("with a refused token", delivery.StatusDelivered, 200, 4)
	refused.Store(9)
	ahead.Store(int64(4 * time.Second))
	try("whatever the token", delivery.StatusFailed, 401, 6)
	try("within a second of the last token", delivery.StatusFailed, 401, 7)
	if n := issued.Load(); n != 3 {
		t.Errorf("%d tokens were issued, want 3", n)
	}
	testkit.NoLeak(t, credentialCanary, s.everything())
	testkit.NoLeak(t, "access-token", s.everything())
}

// Without a token the attempt fails and says so; the endpoint is not called, and its circuit stays as it is.
func TestTokenServerFails(t *testing.T) {
	t.Parallel()
	tokens := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"`+credentialCanary+`"}`)
	})
	r := newReceiver(t, nil)
	s := newSubscriber(t, r, tokens)
	logged := &lockedBuffer{}
	s.log = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	e := s.endpoint(nil, tokenAuth(t, tokens))
	for range 2 * breaker.DefaultPolicy().Failures {
		record, attempt := s.test(e)
		if record.Status != delivery.StatusFailed || record.LastError != "token_failed" || attempt == nil ||
			attempt.Error != delivery.FaultToken || attempt.Outcome != delivery.OutcomeFailed || attempt.ResponseCode != 0 {
			t.Fatalf("record %+v, attempt %+v", record, attempt)
		}
	}
	if r.count() != 0 {
		t.Error("the endpoint was called")
	}
	direct := s.enqueue(s.n, request(r))
	s.untilStatus(direct, delivery.StatusDelivered)
	if n := s.count("SELECT count(*) FROM flow WHERE state <> 'closed'"); n != 0 {
		t.Errorf("%d flows are parked", n)
	}
	testkit.NoLeak(t, credentialCanary, s.everything()+logged.String())
}

// newAuthority returns a certificate authority, and a function that issues client certificates in PEM.
func newAuthority(t *testing.T) (pool *x509.CertPool, issue func(name string) auth.Auth) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(authority)
	return pool, func(name string) auth.Auth {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
		der, err := x509.CreateCertificate(rand.Reader, leaf, authority, own.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		pkcs8, err := x509.MarshalPKCS8PrivateKey(own)
		if err != nil {
			t.Fatal(err)
		}
		a, err := auth.NewMTLS(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
			string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
}

// Each endpoint's connections carry its own certificate, and only those of their endpoint; a new certificate takes
// effect at the next request.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	pool, issue := newAuthority(t)
	var mu sync.Mutex
	var seen []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		name := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		seen = append(seen, name)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = &tls.Config{ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	guard, err := netguard.New(netguard.Options{AllowTargets: []string{server.Listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	sender := dispatch.NewHTTP(guard, dispatch.HTTPOptions{Timeout: requestTimeout, PerHost: 4, Roots: roots})
	t.Cleanup(sender.Close)
	first, second := delivery.NewID(time.Now()), delivery.NewID(time.Now())
	ann, bob, eve := issue("ann"), issue("bob"), issue("eve")
	for _, client := range []*dispatch.Client{
		nil,
		{Endpoint: first, Auth: ann},
		{Endpoint: second, Auth: bob},
		{Endpoint: first, Auth: ann},
		nil,
		{Endpoint: first, Auth: eve},
		{Endpoint: second, Auth: bob},
	} {
		if reply := sender.Send(t.Context(), dispatch.Request{URL: server.URL, Body: []byte("{}"), Client: client}); reply.Status != http.StatusOK {
			t.Fatalf("reply %+v", reply)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"nobody", "ann", "bob", "ann", "nobody", "eve", "bob"}; !slices.Equal(seen, want) {
		t.Errorf("seen %v, want %v", seen, want)
	}
}

// A target that wants another certificate, or any, makes the attempt fail.
func TestClientCertificateIsRefused(t *testing.T) {
	t.Parallel()
	pool, _ := newAuthority(t)
	_, issue := newAuthority(t)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = &tls.Config{ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	guard, err := netguard.New(netguard.Options{AllowTargets: []string{server.Listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	sender := dispatch.NewHTTP(guard, dispatch.HTTPOptions{Timeout: requestTimeout, PerHost: 4, Roots: roots})
	t.Cleanup(sender.Close)
	for name, client := range map[string]*dispatch.Client{"none": nil, "another's": {Endpoint: delivery.NewID(time.Now()), Auth: issue("ann")}} {
		if reply := sender.Send(t.Context(), dispatch.Request{URL: server.URL, Client: client}); reply.Fault == delivery.FaultNone || reply.Status != 0 {
			t.Errorf("%s: reply %+v", name, reply)
		}
	}
}
