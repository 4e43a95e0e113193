package cert

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Kept returns the certificate in a file, so that clients go on trusting fakes that are started again. It makes one, and
// writes it there, when the file is missing or has none that is good for all hosts and for half of the lifetime of a new
// one.
func Kept(file string, now time.Time, hosts ...string) (tls.Certificate, []byte, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tls.Certificate{}, nil, err
	}
	if kept, err := tls.X509KeyPair(text, text); err == nil && good(kept.Leaf, now.Add(lifetime/2), hosts) {
		return kept, encode(kept.Certificate[0]), nil
	}
	made, public, err := New(now, hosts...)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("encode the key: %w", err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	return made, public, os.WriteFile(file, append(private, public...), 0o600)
}

// good reports whether a certificate is valid at a time, for localhost and further hosts.
func good(leaf *x509.Certificate, at time.Time, hosts []string) bool {
	for _, host := range append([]string{"localhost"}, hosts...) {
		if leaf.VerifyHostname(host) != nil {
			return false
		}
	}
	return at.Before(leaf.NotAfter)
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
