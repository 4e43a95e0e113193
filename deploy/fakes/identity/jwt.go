package identity

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Claims are those of a JSON Web Token (RFC 7519) that are checked here. Times are in seconds since 1970.
type Claims struct {
	Issuer    string   `json:"iss,omitempty"`
	Subject   string   `json:"sub,omitempty"`
	Audience  audience `json:"aud,omitempty"`
	Expires   int64    `json:"exp,omitempty"`
	NotBefore int64    `json:"nbf,omitempty"`
	IssuedAt  int64    `json:"iat,omitempty"`
	Scope     string   `json:"scope,omitempty"`
}

// audience is one text, or a list of them.
type audience []string

// UnmarshalJSON reads either form.
func (a *audience) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

var encoding = base64.RawURLEncoding

// sign returns a token with RS256.
func sign(key *rsa.PrivateKey, claims Claims) string {
	body, err := json.Marshal(claims)
	if err != nil {
		panic("identity: " + err.Error())
	}
	text := encoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT","kid":"1"}`)) + "." + encoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		panic("identity: " + err.Error())
	}
	return text + "." + encoding.EncodeToString(signature)
}

// verify returns the claims of a token that key has signed and that is valid now, or an error that says what is wrong.
func verify(key *rsa.PublicKey, text string, now time.Time, skew time.Duration) (claims Claims, err error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return claims, errors.New("not a JSON Web Token")
	}
	var header struct {
		Algorithm string `json:"alg"`
	}
	if err := part(parts[0], &header); err != nil || header.Algorithm != "RS256" {
		return claims, fmt.Errorf("alg %q: want RS256", header.Algorithm)
	}
	signature, err := encoding.DecodeString(parts[2])
	if err != nil {
		return claims, errors.New("the signature is not base64url")
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) != nil {
		return claims, errors.New("the signature does not match")
	}
	if err := part(parts[1], &claims); err != nil {
		return claims, errors.New("the claims are not JSON")
	}
	return claims, claims.check(now, skew)
}

func part(text string, to any) error {
	decoded, err := encoding.DecodeString(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(decoded, to)
}

func (c *Claims) check(now time.Time, skew time.Duration) error {
	switch {
	case c.Expires == 0:
		return errors.New("exp is missing")
	case !now.Add(-skew).Before(time.Unix(c.Expires, 0)):
		return errors.New("exp is past")
	case c.NotBefore != 0 && now.Add(skew).Before(time.Unix(c.NotBefore, 0)):
		return errors.New("nbf is to come")
	case c.IssuedAt != 0 && now.Add(skew).Before(time.Unix(c.IssuedAt, 0)):
		return errors.New("iat is to come")
	}
	return nil
}

// workload checks a token of the workload's issuer for an audience.
func (s *Server) workload(text, want string) (Claims, error) {
	settings := s.get()
	claims, err := verify(&s.issuer().PublicKey, text, s.now(), time.Duration(settings.SkewSeconds*float64(time.Second)))
	switch {
	case err != nil:
		return claims, err
	case claims.Issuer != Issuer:
		return claims, fmt.Errorf("iss %q: want %s", claims.Issuer, Issuer)
	case claims.Subject != Subject:
		return claims, fmt.Errorf("sub %q: no trust in it", claims.Subject)
	case !slices.Contains(claims.Audience, want):
		return claims, fmt.Errorf("aud %q: want %s", claims.Audience, want)
	}
	return claims, nil
}
