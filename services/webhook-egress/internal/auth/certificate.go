package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
)

const (
	// maxChain bounds the certificates of a chain: the leaf and its intermediates.
	maxChain = 5
	// maxRSABits bounds what a handshake costs.
	maxRSABits = 4096
)

// NewMTLS returns an Auth with a client certificate and its private key, both in PEM. The leaf comes first and must be
// valid at now. Errors don't repeat the key.
func NewMTLS(chain, key string, now time.Time) (Auth, error) {
	leaf, err := checkChain([]byte(chain))
	if err != nil {
		return Auth{}, err
	}
	switch {
	case !now.Before(leaf.NotAfter):
		return Auth{}, apierr.Invalid("auth.mtls.certificate", "has expired")
	case now.Before(leaf.NotBefore):
		return Auth{}, apierr.Invalid("auth.mtls.certificate", "is not valid yet")
	case !supported(leaf.PublicKey):
		return Auth{}, apierr.Invalid("auth.mtls.certificate", "needs a key that is RSA of up to 4096 bits, ECDSA or Ed25519")
	}
	if _, err := tls.X509KeyPair([]byte(chain), []byte(key)); err != nil {
		return Auth{}, apierr.Invalid("auth.mtls.key", "is not the unencrypted PEM private key of the certificate")
	}
	sum := sha256.Sum256(leaf.Raw)
	return Auth{
		Info: Info{Kind: MTLS, Certificate: &Certificate{
			Subject: leaf.Subject.String(), Fingerprint: hex.EncodeToString(sum[:]), NotAfter: leaf.NotAfter.UTC(),
		}},
		Chain: chain, Secret: secret.New(key),
	}, nil
}

// checkChain returns the leaf of a chain that consists of certificates only.
func checkChain(text []byte) (leaf *x509.Certificate, err error) {
	for number := 0; ; number++ {
		block, rest := pem.Decode(text)
		switch {
		case block == nil && leaf != nil:
			return leaf, nil
		case block == nil || block.Type != "CERTIFICATE":
			return nil, apierr.Invalid("auth.mtls.certificate", "must be certificates in PEM")
		case number == maxChain:
			return nil, apierr.Invalid("auth.mtls.certificate", "must have 5 certificates at most")
		}
		parsed, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, apierr.Invalid("auth.mtls.certificate", "has a certificate that cannot be read")
		}
		if leaf == nil {
			leaf = parsed
		}
		text = rest
	}
}

func supported(key crypto.PublicKey) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() <= maxRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// ClientCertificate returns the certificate of a checked Auth of the kind MTLS.
func (a Auth) ClientCertificate() (tls.Certificate, error) {
	return tls.X509KeyPair([]byte(a.Chain), []byte(a.Secret.Reveal()))
}
