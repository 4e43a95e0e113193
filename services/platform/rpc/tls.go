package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// TLS are the settings of a face that speaks TLS itself; none of them set means
// plain text, for a mesh or loopback. Embed it in a service's Config with the
// prefix "TLS_".
type TLS struct {
	CertFile string `env:"CERT_FILE" doc:"PEM certificate chain of both listeners; empty for plain text"`
	KeyFile  string `env:"KEY_FILE" doc:"PEM private key of the certificate"`
	ClientCA string `env:"CLIENT_CA_FILE" doc:"PEM certificates that callers' certificates must come from (mutual TLS); empty asks for none"`
}

// Config returns nil when TLS is off. The certificate is read again when its
// file changes, so that a renewed one needs no restart.
func (t TLS) Config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil // No TLS is a valid setting.
	}
	if t.CertFile == "" || t.KeyFile == "" {
		return nil, errors.New("TLS_CERT_FILE and TLS_KEY_FILE go together")
	}
	pair := &keyPair{cert: t.CertFile, key: t.KeyFile}
	if _, err := pair.get(nil); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get, NextProtos: []string{"h2", "http/1.1"}}
	if t.ClientCA == "" {
		return config, nil
	}
	pem, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("TLS client CA: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("TLS client CA %s: holds no PEM certificate", t.ClientCA)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}

// keyPair is a certificate that follows its file.
type keyPair struct {
	cert, key string

	mu     sync.Mutex
	loaded *tls.Certificate
	from   time.Time
}

// get returns the newest pair that could be read: a file that is being replaced
// doesn't end the handshakes.
func (p *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(p.cert)
	if err == nil && (p.loaded == nil || info.ModTime().After(p.from)) {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(p.cert, p.key); err == nil {
			p.loaded, p.from = &pair, info.ModTime()
		}
	}
	if p.loaded == nil {
		return nil, fmt.Errorf("TLS certificate: %w", err)
	}
	return p.loaded, nil
}
