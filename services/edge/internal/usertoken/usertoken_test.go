package usertoken

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// memory is a Store and a Feed in memory.
type memory struct {
	mu      sync.Mutex
	policy  Policy
	keys    []SigningKey
	entries []apikey.Entry
	away    error
	// unaudited is the error of entries without a change.
	unaudited error
}

func (m *memory) Signing(context.Context) ([]SigningKey, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys, m.policy.Position, m.away
}

func (m *memory) ChangeKeys(_ context.Context, decide KeyDecision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	change, err := decide(m.keys)
	if err != nil || change == nil {
		return err
	}
	m.policy.Position++
	m.keys = append(m.keys, change.Added)
	m.policy.Keys = append(m.policy.Keys, change.Added.PublicKey)
	return nil
}

func (m *memory) Revoke(_ context.Context, holder Holder, at, _ time.Time, entry apikey.Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.policy.Position++
	revoked := map[Holder]Revocation{holder: {m.policy.Position, at}}
	for other, r := range m.policy.Revoked {
		if other != holder {
			revoked[other] = r
		}
	}
	m.policy.Revoked = revoked
	m.entries = append(m.entries, entry)
	return nil
}

func (m *memory) Origins(_ context.Context, organization string) ([]string, error) {
	return m.policy.Origins[organization], nil
}

func (m *memory) SetOrigins(_ context.Context, organization string, origins []string, _ apikey.Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.policy.Position++
	m.policy.Origins = map[string][]string{organization: origins}
	return nil
}

func (m *memory) Audit(_ context.Context, entry apikey.Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unaudited != nil {
		return m.unaudited
	}
	m.entries = append(m.entries, entry)
	return nil
}

func (m *memory) TokenPosition(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.policy.Position, m.away
}

func (m *memory) TokenPolicy(context.Context, time.Time) (Policy, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.policy, m.away
}

// world is a manager and a verifier that knows its key.
type world struct {
	*Manager

	store    *memory
	verifier *Verifier
}

func newWorld(tb testing.TB) world {
	tb.Helper()
	box, err := NewBox(secret.New(strings.Repeat("p", 32)))
	if err != nil {
		tb.Fatal(err)
	}
	store := &memory{}
	w := world{NewManager(box, store, testkit.Logger(tb)), store, NewVerifier(apikey.Limits{})}
	if err := w.Ensure(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	w.verifier.Use(store.policy)
	return w
}

// request is a valid one.
func request() Request {
	return Request{Organization: "org-1", User: "ann", Scopes: []apikey.Permission{"notifications:inbox:read"}, Life: time.Minute}
}

func (w world) mint(tb testing.TB, r Request) string {
	tb.Helper()
	text, _, _, err := w.Mint(tb.Context(), apikey.Actor{}, r)
	if err != nil {
		tb.Fatal(err)
	}
	return text.Reveal()
}

// A token whose entry in the audit can't be stored is not given away.
func TestMintNeedsItsEntry(t *testing.T) {
	w := newWorld(t)
	w.mint(t, request())
	if n := len(w.store.entries); n != 1 || w.store.entries[0].Action != ActionMint {
		t.Fatalf("entries %+v, want that of one token", w.store.entries)
	}
	w.store.unaudited = errors.New("the audit can't be written")
	text, id, _, err := w.Mint(t.Context(), apikey.Actor{Name: "test"}, request())
	if !errors.Is(err, w.store.unaudited) || text.Reveal() != "" || id != "" {
		t.Errorf("minted %q without an entry: %v", id, err)
	}
}

// signed returns a token of any payload and headers.
func (w world) signed(tb testing.TB, header, payload string) string {
	tb.Helper()
	key := w.store.keys[0]
	seed, err := w.box.Open(key.SealedSeed, key.ID)
	if err != nil {
		tb.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(header)) + "." + encode([]byte(payload))
	return prefix + text + "." + encode(ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte(text)))
}

func TestVerify(t *testing.T) {
	w := newWorld(t)
	r := request()
	r.Owner, r.Origins = "team", []string{"https://app.example.com"}
	got, err := w.verifier.Verify(w.mint(t, r))
	if err != nil {
		t.Fatal(err)
	}
	if got.Organization != "org-1" || got.User != "ann" || got.Owner != "team" || !strings.HasPrefix(got.ID, "tok_") || got.Expires.Sub(got.Issued) != time.Minute {
		t.Errorf("%+v", got)
	}
	need := apikey.NewNeed([]string{"notifications"}, apikey.Read, "notifications:inbox:read")
	if err := got.May(need); err != nil {
		t.Errorf("its scope: %v", err)
	}
	for _, scope := range []apikey.Permission{"notifications:inbox:write", "ai:chat:invoke", "ai:approvals:decide"} {
		if err := got.May(apikey.NewNeed([]string{"notifications", "ai"}, apikey.Read, scope)); !errors.Is(err, ErrScope) {
			t.Errorf("%s: %v", scope, err)
		}
	}
}

func TestForgedTokensAreInvalid(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	kid, now := w.store.keys[0].ID, time.Now().Unix()
	header := func(alg, typ, kid string) string { return fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":%q}`, alg, kid, typ) }
	good := header("EdDSA", typ, kid)
	payload := func(issued, expires int64, more string) string {
		return fmt.Sprintf(`{"iss":%q,"aud":%q,"sub":"ann","iat":%d,"exp":%d,"jti":"tok_1","pos":9,"organization":"org-1","scopes":["notifications:inbox:read"]%s}`,
			issuer, audience, issued, expires, more)
	}
	fine := payload(now, now+60, "")
	if got, err := w.verifier.Verify(w.signed(t, good, fine)); err != nil || got.Verified { // an earlier release's
		t.Fatalf("the pattern of all forgeries: %+v, %v", got, err)
	}
	const verified, owned = `,"user_verified":true`, `,"owner":"team"`
	for more, want := range map[string]bool{verified: true, verified + owned: false, owned: false} {
		if got, err := w.verifier.Verify(w.signed(t, good, payload(now, now+60, more))); err != nil || got.Verified != want {
			t.Errorf("a token with %s: %+v, %v, want verified %t", more, got, err, want)
		}
	}
	valid := w.mint(t, request())
	parts := strings.Split(valid, ".")
	encode := base64.RawURLEncoding.EncodeToString
	for name, text := range map[string]string{
		"empty":               "",
		"prefix":              prefix,
		"no prefix's JWS":     strings.TrimPrefix(valid, prefix) + "x",
		"foreign key":         other.mint(t, request()),
		"other signature":     parts[0] + "." + parts[1] + "." + strings.Split(other.mint(t, request()), ".")[2],
		"no signature":        parts[0] + "." + parts[1] + ".",
		"other payload":       parts[0] + "." + encode([]byte(fine)) + "." + parts[2],
		"detached payload":    parts[0] + ".." + parts[2],
		"algorithm none":      prefix + encode([]byte(header("none", typ, kid))) + "." + encode([]byte(fine)) + ".",
		"symmetric algorithm": w.signed(t, header("HS256", typ, kid), fine),
		"unknown key":         w.signed(t, header("EdDSA", typ, "sig_unknown"), fine),
		"no key":              w.signed(t, `{"alg":"EdDSA","typ":"`+typ+`"}`, fine),
		"type of another JWT": w.signed(t, header("EdDSA", "JWT", kid), fine),
		"no type":             w.signed(t, `{"alg":"EdDSA","kid":"`+kid+`"}`, fine),
		"header twice":        w.signed(t, `{"alg":"EdDSA","kid":"x","kid":"`+kid+`","typ":"`+typ+`"}`, fine),
		"critical extension":  w.signed(t, `{"alg":"EdDSA","kid":"`+kid+`","typ":"`+typ+`","crit":["x"],"x":1}`, fine),
		"claim twice":         w.signed(t, good, payload(now, now+60, `,"sub":"bob"`)),
		"expired":             w.signed(t, good, payload(now-61, now-1, "")),
		"not yet valid":       w.signed(t, good, payload(now+60, now+90, "")),
		"too long a life":     w.signed(t, good, payload(now, now+3601, "")),
		"ends before it":      w.signed(t, good, payload(now, now-1, "")),
		"another audience":    w.signed(t, good, strings.Replace(fine, audience, "other", 1)),
		"another issuer":      w.signed(t, good, strings.Replace(fine, issuer, "other", 1)),
		"no user":             w.signed(t, good, strings.Replace(fine, `"ann"`, `""`, 1)),
		"no object":           w.signed(t, good, `[]`),
		"oversize":            w.signed(t, good, payload(now, now+60, `,"owner":"`+strings.Repeat("x", maxText)+`"`)),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := w.verifier.Verify(text); !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// A token in place of an identifier is refused like a key.
func TestTokensLookLikeKeys(t *testing.T) {
	w := newWorld(t)
	if text := w.mint(t, request()); !screen.IDLooksLikeKey(text) {
		t.Errorf("%.12s… passes for an identifier", text)
	}
}

// A scope that is not for end users opens nothing in a token that is signed right.
func TestScopesOfKeysOpenNothing(t *testing.T) {
	c := claims{Scopes: []apikey.Permission{"notifications:inbox:read", apikey.Write, "ai:approvals:decide"}}
	got := c.token("sig_1")
	if err := got.May(apikey.NewNeed([]string{"ai"}, apikey.Write, "ai:approvals:decide")); !errors.Is(err, ErrScope) {
		t.Errorf("decide: %v", err)
	}
}

func TestMintRefuses(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct {
		change func(r *Request)
		want   string
	}{
		"no organization":    {func(r *Request) { r.Organization = "" }, "organization_id"},
		"no user":            {func(r *Request) { r.User = "" }, "user_id"},
		"user with a space":  {func(r *Request) { r.User = "a b" }, "user_id"},
		"user that is a key": {func(r *Request) { r.User = "swy_live_" + strings.Repeat("aB3", 17) }, "user_id"},
		"long owner":         {func(r *Request) { r.Owner = strings.Repeat("x", 257) }, "owner_id"},
		"no scope":           {func(r *Request) { r.Scopes = nil }, "scopes"},
		"permission":         {func(r *Request) { r.Scopes = []apikey.Permission{apikey.Write} }, "scopes"},
		"scope of keys":      {func(r *Request) { r.Scopes = []apikey.Permission{"ai:approvals:decide"} }, "scopes"},
		"an owner decides":   {func(r *Request) { r.Owner, r.Scopes = "team", []apikey.Permission{apikey.DecideOwn} }, "scopes"},
		"whole area":         {func(r *Request) { r.Scopes = []apikey.Permission{"notifications:*"} }, "scopes"},
		"no life":            {func(r *Request) { r.Life = 0 }, "ttl_seconds"},
		"too long a life":    {func(r *Request) { r.Life = MaxLife + time.Second }, "ttl_seconds"},
		"origin":             {func(r *Request) { r.Origins = []string{"https://a.example", "*"} }, "origins[1]"},
		"too many origins":   {func(r *Request) { r.Origins = make([]string, MaxTokenOrigins+1) }, "origins"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request()
			tt.change(&r)
			_, _, _, err := w.Mint(t.Context(), apikey.Actor{}, r)
			if shown := apierr.From(err); err == nil || shown.Kind != apierr.KindInvalid || shown.Field() != tt.want {
				t.Errorf("%v, want an error of %s", err, tt.want)
			}
		})
	}
}

// The longest token that can be asked for is one that replicas take.
func TestLongestToken(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat(`"`, 256)
	scopes := slices.DeleteFunc(apikey.EndUserScopes(), func(p apikey.Permission) bool { return p == apikey.DecideOwn }) // not an owner's
	r := Request{Organization: long, User: long, Owner: long, Scopes: scopes, Verified: true, Life: MaxLife}
	for i := range MaxTokenOrigins {
		r.Origins = append(r.Origins, fmt.Sprintf("https://%s%d.example:65535", strings.Repeat("x", maxOrigin-23), i))
	}
	if _, err := w.verifier.Verify(w.mint(t, r)); err != nil {
		t.Error(err)
	}
}

func TestOrigins(t *testing.T) {
	for origin, want := range map[string]bool{
		"https://app.example.com": true, "https://app.example.com:8443": true, "http://localhost": true, "http://localhost:3000": true,
		"http://127.0.0.1:8080": true, "http://[::1]:8080": true, "https://[2001:db8::1]": true, "https://xn--bcher-kva.example": true,
		"": false, "*": false, "null": false, "https://*": false, "https://*.example.com": false, "http://app.example.com": false,
		"https://app.example.com/": false, "https://app.example.com/a": false, "https://App.example.com": false,
		"https://app.example.com:443": false, "http://localhost:80": false, "https://a:0": false, "https://a:65536": false, "https://a:080": false,
		"https://u@a": false, "https://a?b": false, "https://a#b": false, "https://": false, "ftp://a": false, "https:a": false,
		"https://a b": false, "https://bücher.example": false, "https://a:": false, "http://127.1": false, "https://-a": false,
		"https://[2001:db8:0::1]": false, "https://[::1%25a]": false, "https://" + strings.Repeat("a", 300): false,
	} {
		if got := validOrigin(origin); got != want {
			t.Errorf("%q: %v, want %v", origin, got, want)
		}
	}
}

func TestAllowsOrigin(t *testing.T) {
	w := newWorld(t)
	const app, shop, foreign = "https://app.example.com", "https://shop.example.com", "https://foreign.example.com"
	p := w.store.policy
	p.Origins = map[string][]string{"org-1": {app, shop}, "org-2": {foreign}}
	w.verifier.Use(p)
	token, err := w.verifier.Verify(w.mint(t, request()))
	if err != nil {
		t.Fatal(err)
	}
	narrowed := request()
	narrowed.Origins = []string{shop, foreign}
	narrow, err := w.verifier.Verify(w.mint(t, narrowed))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		token  *Token
		origin string
		want   bool
	}{
		{token, app, true},
		{token, shop, true},
		{token, foreign, false},
		{token, "null", false},
		{narrow, app, false},
		{narrow, shop, true},
		{narrow, foreign, false},
		{nil, app, true},
		{nil, foreign, true},
		{nil, "https://other.example.com", false},
	} {
		if got := w.verifier.AllowsOrigin(tt.token, tt.origin); got != tt.want {
			t.Errorf("%+v from %s: %v, want %v", tt.token, tt.origin, got, tt.want)
		}
	}
}
