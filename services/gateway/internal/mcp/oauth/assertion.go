package oauth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/secret"
)

const (
	// minSecret and maxSecret bound a client's secret, maxKey its private key, in bytes.
	minSecret, maxSecret = 8, 2048
	maxKey               = 16 << 10
	// minRSA is the length of the shortest RSA key, maxRSA of the longest, in bits.
	minRSA, maxRSA = 2048, 8192
	// assertionLife is how long an assertion is valid.
	assertionLife = time.Minute
)

// Errors of a client's secret. They repeat nothing of it.
var (
	errSecret = errors.New("the client's secret must be 8 to 2048 printable ASCII characters")
	errKey    = errors.New("the private key must be one in PEM: RSA of 2048 to 8192 bits, P-256, P-384, P-521 or Ed25519")
)

// CheckSecret implements toolserver.OAuthClient.
func (c *Client) CheckSecret(way toolserver.Authentication, value secret.Value) error {
	if way == toolserver.AuthenticationKey {
		_, _, err := parseKey(value)
		return err
	}
	_, err := clientSecret(value)
	return err
}

// clientSecret returns a client's secret without the end of its line.
func clientSecret(value secret.Value) (string, error) {
	text := strings.TrimRight(value.Reveal(), "\r\n")
	if len(text) < minSecret || len(text) > maxSecret || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", errSecret
	}
	return text, nil
}

// parseKey returns a private key with the algorithm that it signs with.
func parseKey(value secret.Value) (key any, algorithm jwt.SigningMethod, err error) {
	text := value.Reveal()
	if len(text) > maxKey {
		return nil, nil, errKey
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || strings.TrimSpace(string(rest)) != "" {
		return nil, nil, errKey
	}
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, nil, errKey
	}
	if algorithm = algorithmOf(key); algorithm == nil {
		return nil, nil, errKey
	}
	return key, algorithm, nil
}

// algorithmOf returns the algorithm of a key; nil for a key that isn't used.
func algorithmOf(key any) jwt.SigningMethod {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if bits := k.N.BitLen(); bits >= minRSA && bits <= maxRSA {
			return jwt.SigningMethodRS256
		}
	case *ecdsa.PrivateKey:
		switch k.Curve.Params().BitSize {
		case 256:
			return jwt.SigningMethodES256
		case 384:
			return jwt.SigningMethodES384
		case 521:
			return jwt.SigningMethodES512
		}
	case ed25519.PrivateKey:
		return jwt.SigningMethodEdDSA
	}
	return nil
}

// assertion returns the signed statement by which a client authenticates (RFC 7523). It is for the issuer alone, so that no
// other server can use it there.
func assertion(client *toolserver.OAuth, value secret.Value, algorithms []string, now time.Time) (string, error) {
	key, algorithm, err := parseKey(value)
	if err != nil {
		return "", &Error{Text: err.Error()}
	}
	if algorithms != nil && !slices.Contains(algorithms, algorithm.Alg()) {
		return "", broken("the authorization server does not take assertions signed with " + algorithm.Alg())
	}
	claims := jwt.MapClaims{
		"iss": client.ClientID, "sub": client.ClientID, "aud": client.Issuer, "jti": uuid.NewString(),
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	}
	statement := jwt.NewWithClaims(algorithm, claims)
	if client.KeyID != "" {
		statement.Header["kid"] = client.KeyID
	}
	signed, err := statement.SignedString(key)
	if err != nil {
		return "", &Error{Text: "the assertion can't be signed with the private key"}
	}
	return signed, nil
}
