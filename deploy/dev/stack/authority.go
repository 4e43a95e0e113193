package stack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Authority issues the certificates of a stack whose services speak mutual TLS.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	PEM         string // its own certificate
}

// certificateLife is longer than any run.
const certificateLife = 24 * time.Hour

// NewAuthority returns a new authority that no service trusts yet.
func NewAuthority() (*Authority, error) {
	template, key, err := newCertificate("switchyard test authority")
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	return &Authority{certificate, key, pemText("CERTIFICATE", der)}, err
}

// Issue makes a certificate for a name on this machine, and for other names of hosts, for servers and clients. Both
// results are PEM texts.
func (a *Authority) Issue(name string, hosts ...string) (certificate, key string, err error) {
	template, private, err := newCertificate(name)
	if err != nil {
		return "", "", err
	}
	template.DNSNames, template.IPAddresses = slices.Concat(hosts, []string{"localhost"}), []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		return "", "", fmt.Errorf("make a certificate for %s: %w", name, err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	return pemText("CERTIFICATE", der), pemText("PRIVATE KEY", text), err
}

func newCertificate(name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key for %s: %w", name, err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife), KeyUsage: x509.KeyUsageDigitalSignature,
	}, key, nil
}

func pemText(kind string, der []byte) string {
	return strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

// Files of the certificates in the vault.
const trustedAuthorities = "tls/authorities.pem"

func certificateFile(s Service) string { return filepath.Join("tls", string(s)+".pem") }
func keyFile(s Service) string         { return filepath.Join("tls", string(s)+".key") }

// Certify gives every service a certificate of an authority, also while the stack runs.
func (s *Stack) Certify(by *Authority) error {
	for _, service := range processes {
		if err := s.CertifyOne(service, by); err != nil {
			return err
		}
	}
	return nil
}

// CertifyOne gives one service a certificate of an authority.
func (s *Stack) CertifyOne(service Service, by *Authority) error {
	certificate, key, err := by.Issue(string(service))
	if err != nil {
		return err
	}
	if err := s.vault.write(keyFile(service), key); err != nil {
		return err
	}
	return s.vault.write(certificateFile(service), certificate)
}

// Trust makes the services trust certificates of these authorities and no others, also while they run.
func (s *Stack) Trust(authorities ...*Authority) error {
	var text strings.Builder
	for _, a := range authorities {
		text.WriteString(a.PEM + "\n")
	}
	return s.vault.write(trustedAuthorities, strings.TrimSpace(text.String()))
}

// secure returns the settings of mutual TLS, without the service's prefix. The edge asks for no client certificate,
// since its callers are customers, who have none.
func (s *Stack) secure(service Service) []string {
	if s.options.Authority == nil {
		return nil
	}
	files := func(prefix string) []string {
		return []string{prefix + "CERT_FILE=" + s.vault.path(certificateFile(service)), prefix + "KEY_FILE=" + s.vault.path(keyFile(service))}
	}
	trusted := s.vault.path(trustedAuthorities)
	own := files("TLS_")
	switch service {
	case Control:
		return own
	case Edge:
		return append(append(own, files("UPSTREAM_TLS_")...), "UPSTREAM_TLS_CA_FILE="+trusted)
	case Notify:
		own = append(append(own, files("WEBHOOK_EGRESS_TLS_")...), "WEBHOOK_EGRESS_TLS=true", "WEBHOOK_EGRESS_TLS_CA_FILE="+trusted)
	case Gateway, WebhookEgress:
	}
	return append(own, "TLS_CLIENT_CA_FILE="+trusted)
}
