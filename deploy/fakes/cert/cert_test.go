package cert

import (
	"crypto/x509"
	"testing"
	"time"
)

func TestAClientThatTrustsThePEMAcceptsTheCertificate(t *testing.T) {
	now := time.Now()
	certificate, text, err := New(now, "fakes")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		t.Fatal("the PEM text holds no certificate")
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for host, ok := range map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "fakes": true, "example.com": false} {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now})
		if (err == nil) != ok {
			t.Errorf("%s: %v", host, err)
		}
	}
}
