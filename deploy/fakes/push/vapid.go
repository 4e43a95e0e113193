package push

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"
)

// maxLifetime is the maximum time until a VAPID token expires (RFC 8292, section 2).
const maxLifetime = 24 * time.Hour

// VAPID holds the content of a valid Authorization header of RFC 8292.
type VAPID struct {
	Audience string    `json:"aud"`
	Subject  string    `json:"sub"`
	Expires  time.Time `json:"exp"`
	// Key is the sender's public key, base64url.
	Key string `json:"key"`
}

// ParseVAPID checks the header "vapid t=<token>, k=<key>": its form, the
// ES256 signature, the audience (the origin of the endpoint), the expiry and the contact.
func ParseVAPID(header, origin string, now time.Time) (VAPID, error) {
	token, key, err := splitHeader(header)
	if err != nil {
		return VAPID{}, err
	}
	claims, err := verifyToken(token, key)
	if err != nil {
		return VAPID{}, err
	}
	v := VAPID{Audience: claims.Audience, Subject: claims.Subject, Expires: time.Unix(claims.Expires, 0).UTC(), Key: key}
	switch {
	case v.Audience != origin:
		return VAPID{}, fmt.Errorf("aud is %q, want %q", v.Audience, origin)
	case !v.Expires.After(now):
		return VAPID{}, errors.New("exp has passed")
	case v.Expires.After(now.Add(maxLifetime)):
		return VAPID{}, errors.New("exp is more than 24 hours ahead")
	case !isContact(v.Subject):
		return VAPID{}, errors.New("sub is neither a mailto: nor an https: address")
	}
	return v, nil
}

func splitHeader(header string) (token, key string, err error) {
	rest, found := strings.CutPrefix(header, "vapid ")
	if !found {
		return "", "", errors.New("the Authorization scheme is not vapid")
	}
	for param := range strings.SplitSeq(rest, ",") {
		name, v, _ := strings.Cut(strings.TrimSpace(param), "=")
		switch name {
		case "t":
			token = v
		case "k":
			key = v
		}
	}
	if token == "" || key == "" {
		return "", "", errors.New("the Authorization header lacks t or k")
	}
	return token, key, nil
}

type claims struct {
	Audience string `json:"aud"`
	Subject  string `json:"sub"`
	Expires  int64  `json:"exp"`
}

// verifyToken checks a JWT's ES256 signature with a raw P-256 point.
func verifyToken(token, key string) (claims, error) {
	var c claims
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, errors.New("the token is not a JWT")
	}
	var head struct {
		Algorithm string `json:"alg"`
		Type      string `json:"typ"`
	}
	if err := decodeJSON(parts[0], &head); err != nil || head.Algorithm != "ES256" {
		return c, errors.New("the token is not signed with ES256")
	}
	if err := decodeJSON(parts[1], &c); err != nil {
		return c, errors.New("the token's claims are not readable")
	}
	point, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil {
		return c, errors.New("k is not base64url")
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return c, errors.New("k is not a point of P-256")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(signature) != 64 {
		return c, errors.New("the signature is not 64 bytes of base64url")
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	if !ecdsa.Verify(public, sum[:], r, s) {
		return c, errors.New("the signature does not fit k")
	}
	return c, nil
}

func decodeJSON(part string, v any) error {
	raw, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return fmt.Errorf("base64url: %w", err)
	}
	return json.Unmarshal(raw, v)
}

// isContact reports whether sub is an address at which the push service can reach the sender.
func isContact(sub string) bool {
	if address, found := strings.CutPrefix(sub, "mailto:"); found {
		return strings.Contains(address, "@") && !strings.ContainsAny(address, " <>")
	}
	u, err := url.Parse(sub)
	return err == nil && u.Scheme == "https" && u.Host != ""
}
