package auth_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// tokenServer is a token endpoint whose tokens are numbered.
type tokenServer struct {
	*httptest.Server

	mu     sync.Mutex
	asked  []*http.Request
	answer http.HandlerFunc // nil for a token that expires in 5 minutes
}

func newTokenServer(t *testing.T, answer http.HandlerFunc) *tokenServer {
	t.Helper()
	s := &tokenServer{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		s.mu.Lock()
		s.asked = append(s.asked, r)
		n, handle := len(s.asked), s.answer
		s.mu.Unlock()
		if handle != nil {
			handle(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"token-`+strconv.Itoa(n)+`","token_type":"Bearer","expires_in":300}`)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) set(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *tokenServer) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.asked...)
}

// clock is a time that a test moves.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return now.Add(time.Duration(c.at.Load())) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func newTokens(t *testing.T, c *clock, allowed ...string) *auth.Tokens {
	t.Helper()
	guard, err := netguard.New(netguard.Options{AllowTargets: allowed})
	if err != nil {
		t.Fatal(err)
	}
	tokens := auth.NewTokens(guard, c.now)
	t.Cleanup(tokens.Close)
	return tokens
}

func client(t *testing.T, url string, change func(*auth.Info)) auth.Auth {
	t.Helper()
	info := auth.Info{TokenURL: url, ClientID: "id:1", Scopes: []string{"a", "b"}}
	if change != nil {
		change(&info)
	}
	a, err := auth.NewOAuth2(info, canary+"+/")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var none = secret.Value{}

// The request is that of RFC 6749, sections 4.4.2 and 2.3.1.
func TestTokenRequest(t *testing.T) {
	for style, tt := range map[string]struct{ user, password, id, secret string }{
		auth.StyleBasic: {user: "id%3A1", password: canary + "%2B%2F"},
		auth.StylePost:  {id: "id:1", secret: canary + "+/"},
	} {
		s, c := newTokenServer(t, nil), &clock{}
		a := client(t, s.URL+"/token?x=1", func(i *auth.Info) { i.Style, i.Audience = style, "https://api.example.com" })
		token, err := newTokens(t, c, s.Listener.Addr().String()).Get(t.Context(), delivery.NewID(now), a, none)
		if err != nil || token.Reveal() != "token-1" {
			t.Fatalf("%s: %v, %v", style, token.Reveal(), err)
		}
		r := s.requests()[0]
		user, password, _ := r.BasicAuth()
		if user != tt.user || password != tt.password || r.PostForm.Get("client_id") != tt.id || r.PostForm.Get("client_secret") != tt.secret {
			t.Errorf("%s: Basic %s %s, form %v", style, user, password, r.PostForm)
		}
		if r.Method != http.MethodPost || r.URL.RawQuery != "x=1" || r.PostForm.Get("grant_type") != "client_credentials" ||
			r.PostForm.Get("scope") != "a b" || r.PostForm.Get("audience") != "https://api.example.com" {
			t.Errorf("%s: %s %s, form %v", style, r.Method, r.URL, r.PostForm)
		}
	}
}

// A token serves until it is to be renewed; a change of the client or another endpoint asks anew.
func TestTokenIsCached(t *testing.T) {
	s, c := newTokenServer(t, nil), &clock{}
	tokens, id := newTokens(t, c, s.Listener.Addr().String()), delivery.NewID(now)
	a := client(t, s.URL, nil)
	get := func(what string, id delivery.ID, a auth.Auth, refused, want string) {
		t.Helper()
		token, err := tokens.Get(t.Context(), id, a, secret.New(refused))
		if err != nil || token.Reveal() != want {
			t.Errorf("%s: %q, %v, want %s", what, token.Reveal(), err, want)
		}
	}
	get("the first", id, a, "", "token-1")
	get("the same", id, a, "", "token-1")
	c.advance(3*time.Minute + 59*time.Second)
	get("before it is renewed", id, a, "", "token-1")
	c.advance(2 * time.Second)
	get("a minute ahead of its end", id, a, "", "token-2")
	c.advance(2 * time.Second)
	get("after a 401", id, a, "token-2", "token-3")
	get("for others whose requests had the refused one", id, a, "token-2", "token-3")
	if _, err := tokens.Get(t.Context(), id, a, secret.New("token-3")); err == nil {
		t.Error("renewed twice within a second")
	}
	get("another endpoint", delivery.NewID(now), a, "", "token-4")
	get("another audience", id, client(t, s.URL, func(i *auth.Info) { i.Audience = "b" }), "", "token-5")
	if n := len(s.requests()); n != 5 {
		t.Errorf("%d requests, want 5", n)
	}
}

// Deliveries of one endpoint that need a token at the same time cause one request.
func TestTokenIsRequestedOnce(t *testing.T) {
	release := make(chan struct{})
	s, c := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request) {
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"one","token_type":"bearer"}`)
	}), &clock{}
	tokens, id, a := newTokens(t, c, s.Listener.Addr().String()), delivery.NewID(now), client(t, s.URL, nil)
	var waiting sync.WaitGroup
	for range 32 {
		waiting.Go(func() {
			if token, err := tokens.Get(t.Context(), id, a, none); err != nil || token.Reveal() != "one" {
				t.Errorf("%q, %v", token.Reveal(), err)
			}
		})
	}
	close(release)
	waiting.Wait()
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// While a token is being renewed, and when that fails, the old one serves on.
func TestOldTokenServes(t *testing.T) {
	s, c := newTokenServer(t, nil), &clock{}
	tokens, id, a := newTokens(t, c, s.Listener.Addr().String()), delivery.NewID(now), client(t, s.URL, nil)
	get := func(ctx context.Context, what, want string) {
		t.Helper()
		if token, err := tokens.Get(ctx, id, a, none); err != nil || token.Reveal() != want {
			t.Errorf("%s: %q, %v, want %s", what, token.Reveal(), err, want)
		}
	}
	get(t.Context(), "the first", "token-1")
	asked, release := make(chan struct{}), make(chan struct{})
	s.set(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-release
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	c.advance(4*time.Minute + time.Second)
	var renewing sync.WaitGroup
	renewing.Go(func() { get(t.Context(), "whose renewal fails", "token-1") })
	<-asked
	get(t.Context(), "beside a renewal", "token-1")
	close(release)
	renewing.Wait()
	get(t.Context(), "within a second of the failure", "token-1")
	c.advance(time.Minute)
	s.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	if token, err := tokens.Get(t.Context(), id, a, none); err == nil {
		t.Errorf("an expired token serves: %q", token.Reveal())
	}
	before := len(s.requests())
	if _, err := tokens.Get(t.Context(), id, a, none); err == nil || len(s.requests()) != before {
		t.Errorf("asked again within a second: %v", err)
	}
	s.set(nil)
	c.advance(time.Second)
	get(t.Context(), "after the outage", "token-"+strconv.Itoa(before+1))
}

// A delivery whose time is over says nothing about the server.
func TestCancelledRequestIsNoFailure(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	s, c := newTokenServer(t, func(http.ResponseWriter, *http.Request) { close(asked); <-release }), &clock{}
	tokens, id, a := newTokens(t, c, s.Listener.Addr().String()), delivery.NewID(now), client(t, s.URL, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if _, err := tokens.Get(ctx, id, a, none); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
	})
	<-asked
	cancel()
	waiting.Wait()
	close(release)
	s.set(nil)
	if _, err := tokens.Get(t.Context(), id, a, none); err != nil {
		t.Errorf("the next delivery fails for it: %v", err)
	}
}

// What a token server may answer, and what then is in the error: a status, and nothing that it wrote.
func TestHostileTokenServers(t *testing.T) {
	json := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	redirected := newTokenServer(t, nil)
	for name, answer := range map[string]http.HandlerFunc{
		"a refusal":             json(401, `{"error":"invalid_client","error_description":"`+canary+`"}`),
		"a refusal with 200":    json(200, `{"error":"`+canary+`"}`),
		"junk":                  json(200, canary),
		"nothing":               json(200, ""),
		"no token":              json(200, `{"token_type":"bearer"}`),
		"another type":          json(200, `{"access_token":"`+canary+`","token_type":"mac"}`),
		"a line break":          json(200, `{"access_token":"`+canary+`\r\nX-A: b","token_type":"bearer"}`),
		"a token beyond ASCII":  json(200, `{"access_token":"`+canary+`é","token_type":"bearer"}`),
		"a token too long":      json(200, `{"access_token":"`+strings.Repeat("a", 17<<10)+`","token_type":"bearer"}`),
		"a huge answer":         json(200, `{"a":"`+strings.Repeat("a", 1<<20)+`","access_token":"x","token_type":"bearer"}`),
		"a deep answer":         json(200, strings.Repeat(`[`, 60<<10)),
		"a form without escape": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "access_token=%zz"+canary) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, redirected.URL, http.StatusTemporaryRedirect)
		},
		"another protocol": func(w http.ResponseWriter, _ *http.Request) {
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = conn.Close() }) // It never ends by itself.
			_, _ = buffered.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_ = buffered.Flush()
		},
		"no HTTP": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, canary+"\r\n\r\n")
				_ = conn.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newTokenServer(t, answer), &clock{}
			tokens := newTokens(t, c, s.Listener.Addr().String(), redirected.Listener.Addr().String())
			token, err := tokens.Get(t.Context(), delivery.NewID(now), client(t, s.URL, nil), none)
			if err == nil {
				t.Fatalf("token %.40q", token.Reveal())
			}
			if name != "no HTTP" { // The dispatcher redacts what net/http quotes.
				testkit.NoLeak(t, canary, err.Error())
			}
		})
	}
	if n := len(redirected.requests()); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
}

// A server that never ends its answer is given up with the delivery's time.
func TestSlowTokenServer(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
		_, _ = io.Copy(io.Discard, conn) // Until the client leaves.
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	tokens := newTokens(t, &clock{}, listener.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = tokens.Get(ctx, delivery.NewID(now), client(t, "http://"+listener.Addr().String(), nil), none)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}

// A token server is dialled through the guard: an address that is not public is refused.
func TestTokenServerIsGuarded(t *testing.T) {
	s := newTokenServer(t, nil)
	_, err := newTokens(t, &clock{}).Get(t.Context(), delivery.NewID(now), client(t, s.URL, nil), none)
	if _, refused := errors.AsType[*netguard.Refusal](err); !refused {
		t.Errorf("err = %v, want a refusal", err)
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// However a server says how long a token lives, it is renewed within bounds.
func TestLifetimes(t *testing.T) {
	for expires, tt := range map[string]struct{ serves, renewed time.Duration }{
		"":                       {3*time.Minute + 59*time.Second, 4*time.Minute + time.Second},
		`,"expires_in":0`:        {3*time.Minute + 59*time.Second, 4*time.Minute + time.Second},
		`,"expires_in":"3600"`:   {58 * time.Minute, 59*time.Minute + 10*time.Second},
		`,"expires_in":1`:        {1400 * time.Millisecond, 1600 * time.Millisecond},
		`,"expires_in":-5`:       {1400 * time.Millisecond, 1600 * time.Millisecond},
		`,"expires_in":99999999`: {23 * time.Hour, 24 * time.Hour},
	} {
		s, c := newTokenServer(t, nil), &clock{}
		s.set(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"access_token":"t","token_type":"Bearer"`+expires+`}`)
		})
		tokens, id, a := newTokens(t, c, s.Listener.Addr().String()), delivery.NewID(now), client(t, s.URL, nil)
		at := time.Duration(0)
		for i, moment := range []time.Duration{0, tt.serves, tt.renewed} {
			c.advance(moment - at)
			at = moment
			if _, err := tokens.Get(t.Context(), id, a, none); err != nil {
				t.Errorf("%q after %s: %v", expires, moment, err)
			}
			if n, want := len(s.requests()), []int{1, 1, 2}[i]; n != want {
				t.Errorf("%q: %d requests after %s, want %d", expires, n, moment, want)
			}
		}
	}
}
