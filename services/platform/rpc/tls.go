package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc/credentials"
)

// Certificate are the settings of a face that speaks TLS itself; none of them
// set means plain text, for a mesh or loopback. Embed it in a service's Config
// with the prefix "TLS_".
type Certificate struct {
	CertFile string `env:"CERT_FILE" doc:"PEM certificate chain of the listeners; empty for plain text"`
	KeyFile  string `env:"KEY_FILE" doc:"PEM private key of the certificate"`
}

// Config returns nil when TLS is off. The files are read again when they change,
// so that a renewed certificate needs no restart.
func (c Certificate) Config() (*tls.Config, error) { return TLS{Certificate: c}.Config() }

// TLS are the settings of a face whose callers may have to show certificates.
type TLS struct {
	Certificate

	ClientCA string `env:"CLIENT_CA_FILE" doc:"PEM certificates that callers' certificates must come from (mutual TLS); empty asks for none"`
}

// Config is Certificate.Config; the CAs follow their file too.
func (t TLS) Config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil // No TLS is a valid setting.
	}
	if t.CertFile == "" {
		return nil, errPair
	}
	files, err := openFiles(t.CertFile, t.KeyFile, t.ClientCA)
	if err != nil {
		return nil, err
	}
	base := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if t.ClientCA != "" {
		base.ClientAuth = tls.RequireAndVerifyClientCert
	}
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := files.now()
		config := base.Clone()
		config.GetConfigForClient, config.Certificates, config.ClientCAs = nil, now.pair, now.pool
		return config, nil
	}
	return base, nil
}

// unasked is a server's configuration that lets callers in who show no
// certificate; a wrong one still ends the handshake.
func unasked(config *tls.Config) *tls.Config {
	demanding := config.GetConfigForClient
	config = config.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := demanding(hello)
		if err == nil {
			now.ClientAuth = tls.VerifyClientCertIfGiven
		}
		return now, err
	}
	return config
}

// ClientTLS are the settings of a client that speaks TLS to one of our services.
type ClientTLS struct {
	CertFile string `env:"CERT_FILE" doc:"PEM certificate chain that is shown to the service (mutual TLS); empty shows none"`
	KeyFile  string `env:"KEY_FILE" doc:"PEM private key of the certificate"`
	CA       string `env:"CA_FILE" doc:"PEM certificates that the service's certificate must come from; empty for those that the machine trusts"`
}

// Config returns a function that makes the configuration of a handshake, of the
// files as they are then.
func (c ClientTLS) Config() (func() *tls.Config, error) {
	files, err := openFiles(c.CertFile, c.KeyFile, c.CA)
	if err != nil {
		return nil, err
	}
	return func() *tls.Config { return files.now().client() }, nil
}

// Credentials is Config for gRPC.
func (c ClientTLS) Credentials() (credentials.TransportCredentials, error) {
	files, err := openFiles(c.CertFile, c.KeyFile, c.CA)
	if err != nil {
		return nil, err
	}
	return following{credentials.NewTLS(files.now().client()), files}, nil
}

// following are credentials that have the files as they are at each handshake.
type following struct {
	credentials.TransportCredentials

	files *files
}

// ClientHandshake implements credentials.TransportCredentials.
func (f following) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(f.files.now().client()).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (f following) Clone() credentials.TransportCredentials {
	return following{f.TransportCredentials.Clone(), f.files}
}

var errPair = errors.New("TLS: CERT_FILE and KEY_FILE go together")

// material is what a handshake is made of: at most one pair, and the CAs that
// the other side's certificate must come from, nil for none of our own.
type material struct {
	pair []tls.Certificate
	pool *x509.CertPool
}

func (m material) client() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: m.pair, RootCAs: m.pool}
}

// files are those of a material, of which any may be left out.
type files struct {
	cert, key, ca string

	mu     sync.Mutex
	loaded material
	stamps [3]int64 // of what is loaded
}

func openFiles(cert, key, ca string) (f *files, err error) {
	if (cert == "") != (key == "") {
		return nil, errPair
	}
	f = &files{cert: cert, key: key, ca: ca}
	f.stamps = f.stamp()
	f.loaded, err = f.read()
	return f, err
}

// now is the newest material that could be read: files that are being replaced
// don't end the handshakes.
func (f *files) now() material {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stamps := f.stamp(); stamps != f.stamps {
		if renewed, err := f.read(); err == nil {
			f.loaded, f.stamps = renewed, stamps
		}
	}
	return f.loaded
}

// stamp is when each file last changed.
func (f *files) stamp() (stamps [3]int64) {
	for i, path := range []string{f.cert, f.key, f.ca} {
		if info, err := os.Stat(path); err == nil {
			stamps[i] = info.ModTime().UnixNano()
		}
	}
	return stamps
}

func (f *files) read() (m material, err error) {
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return material{}, fmt.Errorf("TLS certificate: %w", err)
		}
		m.pair = []tls.Certificate{pair}
	}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return material{}, fmt.Errorf("TLS CA: %w", err)
		}
		m.pool = x509.NewCertPool()
		if !m.pool.AppendCertsFromPEM(pem) {
			return material{}, fmt.Errorf("TLS CA %s: holds no PEM certificate", f.ca)
		}
	}
	return m, nil
}
