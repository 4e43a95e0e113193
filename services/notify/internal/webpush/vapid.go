package webpush

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/mail"
	"net/url"
	"strings"
	"sync"
	"time"

	"switchyard.dev/services/platform/secret"
)

// Key is a VAPID key pair. Its id is derived from the public key, so it is the same on every replica and after every
// restart.
type Key struct {
	private *ecdsa.PrivateKey
	public  string
	id      string
}

// GenerateKey returns a new key pair, and its private key as ParseKey reads it.
func GenerateKey() (Key, secret.Value, error) {
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, secret.Value{}, fmt.Errorf("webpush: make key pair: %w", err)
	}
	text := secret.New(base64.RawURLEncoding.EncodeToString(private.Bytes()))
	key, err := ParseKey(text)
	return key, text, err
}

// errKey has no details: they would reveal a part of the private key.
var errKey = errors.New("webpush: a VAPID key must be the 32 bytes of a P-256 private key in base64url")

// ParseKey parses a private key in the form that other web push libraries use, too.
func ParseKey(text secret.Value) (Key, error) {
	raw, err := decodeKey(strings.TrimSpace(text.Reveal()))
	if err != nil {
		return Key{}, errKey
	}
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		return Key{}, errKey
	}
	point, err := private.PublicKey.Bytes()
	if err != nil {
		return Key{}, errKey
	}
	const idBytes = 9
	sum := sha256.Sum256(point)
	return Key{
		private: private,
		public:  base64.RawURLEncoding.EncodeToString(point),
		id:      base64.RawURLEncoding.EncodeToString(sum[:idBytes]),
	}, nil
}

// ID returns the id of the key.
func (k Key) ID() string { return k.id }

// Public returns the uncompressed point in base64url: a page's applicationServerKey.
func (k Key) Public() string { return k.public }

// Keys are the VAPID keys in use. The first signs for new subscriptions, the others for those that were made with
// them.
type Keys []Key

// ParseKeys parses private keys, the current one first.
func ParseKeys(lines []secret.Value) (Keys, error) {
	var keys Keys
	for i, line := range lines {
		key, err := ParseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if _, twice := keys.Find(key.id); twice {
			return nil, fmt.Errorf("line %d: the key is listed twice", i+1)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("webpush: no VAPID key")
	}
	return keys, nil
}

// Current returns the key for new subscriptions.
func (k Keys) Current() Key { return k[0] }

// Find returns the key with an id.
func (k Keys) Find(id string) (Key, bool) {
	for _, key := range k {
		if key.id == id {
			return key, true
		}
	}
	return Key{}, false
}

// CheckSubject refuses contacts that a push service would refuse: Apple responds BadJwtToken to every push with an
// invalid contact.
func CheckSubject(subject string) error {
	const rule = "must be mailto:name@domain or an https URL whose host has a dot"
	if strings.ContainsAny(subject, " <>") {
		return errors.New(rule)
	}
	if address, ok := strings.CutPrefix(subject, "mailto:"); ok {
		parsed, err := mail.ParseAddress(address)
		_, domain, _ := strings.Cut(address, "@")
		if err != nil || parsed.Address != address || !strings.Contains(domain, ".") {
			return errors.New(rule)
		}
		return nil
	}
	u, err := url.Parse(subject)
	if err != nil || u.Scheme != "https" || !strings.Contains(u.Hostname(), ".") || u.User != nil {
		return errors.New(rule)
	}
	return nil
}

// Lifetimes of a token. RFC 8292, section 2, allows 24 hours; Apple asks for a new one at most once an hour.
const (
	tokenLife = 12 * time.Hour
	tokenRest = time.Hour // remaining life of a token that is no longer used
	maxTokens = 1024      // cached at a time
)

// Signer creates the Authorization header of pushes. One token is used for all pushes with a key to an origin until
// shortly before it expires. Signer is safe for concurrent use.
type Signer struct {
	subject string
	now     func() time.Time

	mu     sync.Mutex
	tokens map[tokenKey]token
	signed int
}

type tokenKey struct{ origin, key string }

type token struct {
	header  string
	expires time.Time
}

// NewSigner returns a Signer with subject as contact (see CheckSubject).
func NewSigner(subject string) *Signer {
	return &Signer{subject: subject, now: time.Now, tokens: map[tokenKey]token{}}
}

// Authorization returns the header of a push to an origin.
func (s *Signer) Authorization(key Key, origin string) (string, error) {
	now, name := s.now(), tokenKey{origin, key.id}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.tokens[name]; ok && t.expires.Sub(now) > tokenRest {
		return t.header, nil
	}
	t, err := s.sign(key, origin, now)
	if err != nil {
		return "", err
	}
	if len(s.tokens) >= maxTokens {
		clear(s.tokens) // Only reached with hundreds of push services; their tokens are signed again.
	}
	s.tokens[name] = t
	return t.header, nil
}

// Forget drops the token of a key and an origin after the push service refused it: the next push uses a new one,
// unless the token is younger than an hour.
func (s *Signer) Forget(key Key, origin string) {
	name := tokenKey{origin, key.id}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.tokens[name]; ok && t.expires.Sub(s.now()) < tokenLife-time.Hour {
		delete(s.tokens, name)
	}
}

var tokenHead = base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"JWT","alg":"ES256"}`))

// sign returns a new token (RFC 7515, RFC 7518 section 3.4).
func (s *Signer) sign(key Key, origin string, now time.Time) (token, error) {
	expires := now.Add(tokenLife)
	claims, err := json.Marshal(struct {
		Audience string `json:"aud"`
		Expires  int64  `json:"exp"`
		Subject  string `json:"sub"`
	}{origin, expires.Unix(), s.subject})
	if err != nil {
		return token{}, fmt.Errorf("webpush: claims: %w", err)
	}
	text := tokenHead + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(text))
	r, v, err := ecdsa.Sign(rand.Reader, key.private, sum[:])
	if err != nil {
		return token{}, fmt.Errorf("webpush: sign token: %w", err)
	}
	s.signed++
	text += "." + base64.RawURLEncoding.EncodeToString(signature(r, v))
	return token{header: "vapid t=" + text + ", k=" + key.public, expires: expires}, nil
}

// signature encodes both numbers with 32 bytes each.
func signature(r, s *big.Int) []byte {
	const half = 32
	out := make([]byte, 2*half)
	r.FillBytes(out[:half])
	s.FillBytes(out[half:])
	return out
}
