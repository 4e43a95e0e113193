// Package identity fakes the servers that exchange workload identities for credentials, each at the path that the real
// one has: AWS's Security Token Service and its metadata servers of instances and containers, Google's token endpoint,
// token exchange and metadata server, Microsoft Entra with its identity server of machines, and the token exchanges of
// OpenAI and Anthropic. It checks what the real ones check, and middleware lets fakes of vendors accept only what it has
// issued.
//
// It is the workload's own issuer, too: GET /_material hands out everything that a client of these servers would have.
package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/journal"
)

const (
	maxExchanges     = 10_000
	maxExchangeBytes = 16 << 20
	maxIssued        = 10_000
	keyBits          = 2048
)

// Settings are what a test changes. PUT /_settings replaces them.
type Settings struct {
	// LifetimeSeconds is how long what is issued lives.
	LifetimeSeconds float64 `json:"lifetime_seconds"`
	// RefreshSeconds is the refresh_in of Entra's answers; 0 for none.
	RefreshSeconds float64 `json:"refresh_seconds"`
	// SkewSeconds is how far the clock of an issuer may be away.
	SkewSeconds float64 `json:"skew_seconds"`
}

// Exchange is one attempt to get a credential.
type Exchange struct {
	Time time.Time `json:"time"`
	// Kind names the server and what it was asked for, such as "aws.web_identity".
	Kind string `json:"kind"`
	// Subject is whom the credential stands for; empty if it was refused before that was known.
	Subject string `json:"subject,omitempty"`
	// Issued is the hash of what was issued, as in GET /_calls; empty for a refusal, which Error explains.
	Issued string `json:"issued,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Server is the fake. Its embedded Injector scripts it.
type Server struct {
	*fault.Injector
	exchanges *journal.Journal[Exchange]
	handler   http.Handler
	now       func() time.Time
	// issuer signs the tokens of workloads, account is the key of Google's service account. Each is made when it is needed
	// first, since that takes a while.
	issuer, account func() *rsa.PrivateKey

	mu       sync.Mutex
	settings Settings
	tokens   map[string]token     // access tokens by their text
	keys     map[string]accessKey // temporary keys of AWS by their id
	imds     map[string]time.Time // tokens of AWS's metadata server
}

// token is an access token that was issued.
type token struct {
	vendor, scope string
	expires       time.Time
}

// New returns a server that follows script. It panics on an invalid one.
func New(script fault.Script) *Server {
	s := &Server{
		exchanges: journal.New[Exchange](maxExchanges, maxExchangeBytes), now: time.Now,
		issuer: sync.OnceValue(newKey), account: sync.OnceValue(newKey), settings: Settings{LifetimeSeconds: 3600, SkewSeconds: 60},
		tokens: map[string]token{}, keys: map[string]accessKey{}, imds: map[string]time.Time{},
	}
	s.Injector = fault.NewInjector(script, fault.Options{ErrorBody: errorBody})
	api := http.NewServeMux()
	s.serveAWS(api)
	s.serveGoogle(api)
	s.serveEntra(api)
	s.serveOIDC(api)
	control := http.NewServeMux()
	fault.ServeJournal(control, "exchanges", s.exchanges, selects)
	s.serveControl(control)
	s.handler = s.Handler(control, api)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Exchanges returns the newest exchanges, at most limit, oldest first.
func (s *Server) Exchanges(limit int) []Exchange { return s.exchanges.Last(limit, nil) }

// Set replaces the settings.
func (s *Server) Set(settings Settings) error {
	if settings.LifetimeSeconds < 1 || settings.RefreshSeconds < 0 || settings.SkewSeconds < 0 {
		return errors.New("want a lifetime_seconds of at least 1, and no negative number")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = settings
	return nil
}

func (s *Server) get() Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings
}

func (s Settings) lifetime() time.Duration {
	return time.Duration(s.LifetimeSeconds * float64(time.Second))
}

func (s *Server) serveControl(control *http.ServeMux) {
	control.HandleFunc("GET /_settings", func(w http.ResponseWriter, _ *http.Request) { fault.WriteJSON(w, http.StatusOK, s.get()) })
	control.HandleFunc("PUT /_settings", func(w http.ResponseWriter, r *http.Request) {
		var settings Settings
		err := decode(w, r, &settings)
		if err == nil {
			err = s.Set(settings)
		}
		if err != nil {
			fault.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	control.HandleFunc("GET /_material", func(w http.ResponseWriter, r *http.Request) {
		scheme := "http://"
		if r.TLS != nil {
			scheme = "https://"
		}
		fault.WriteJSON(w, http.StatusOK, s.Material(scheme+r.Host))
	})
	control.HandleFunc("POST /_workload_token", func(w http.ResponseWriter, r *http.Request) {
		claims := s.Workload("")
		if err := decode(w, r, &claims); err != nil {
			fault.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
			return
		}
		fault.WriteJSON(w, http.StatusOK, map[string]string{"token": s.Sign(claims)})
	})
	control.HandleFunc("DELETE /_issued", func(w http.ResponseWriter, _ *http.Request) {
		s.Revoke()
		w.WriteHeader(http.StatusNoContent)
	})
}

func decode(w http.ResponseWriter, r *http.Request, to any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	decoder.DisallowUnknownFields()
	return decoder.Decode(to)
}

// Revoke makes everything invalid that was issued so far.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
	clear(s.keys)
}

// selects filters exchanges by kind, and by whether they were granted.
func selects(query url.Values) func(Exchange) bool {
	kind, granted := query.Get("kind"), query.Get("granted")
	return func(e Exchange) bool {
		return (kind == "" || e.Kind == kind) && (granted == "" || (granted == "true") == (e.Error == ""))
	}
}

// record notes an exchange.
func (s *Server) record(kind, subject, issued string, err error) {
	e := Exchange{Time: s.now().UTC(), Kind: kind, Subject: subject}
	if issued != "" {
		e.Issued = fault.HashSecret(issued)
	}
	if err != nil {
		e.Error = err.Error()
	}
	s.exchanges.Add(e, len(e.Subject)+len(e.Error)+200)
}

// issue returns a new access token of a vendor for a scope, and its lifetime.
func (s *Server) issue(vendor, scope, prefix string) (text string, life time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	life = s.settings.lifetime()
	text = prefix + random(24)
	if len(s.tokens) >= maxIssued {
		clear(s.tokens)
	}
	s.tokens[text] = token{vendor, scope, s.now().Add(life)}
	return text, life
}

func random(n int) string {
	text := make([]byte, n)
	_, _ = rand.Read(text) // It does not fail; the process would end.
	return hex.EncodeToString(text)
}

func newKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		panic("identity: " + err.Error())
	}
	return key
}

// errorBody is the text for a scripted status.
func errorBody(_ *http.Request, status int, _ string) (contentType, body string) {
	code := "server_error"
	if status < http.StatusInternalServerError {
		code = "invalid_request"
	}
	return "application/json", fmt.Sprintf(`{"error":%q,"error_description":"scripted"}`, code)
}
