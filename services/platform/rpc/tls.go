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

	"switchyard.dev/services/platform/bounded"
)

// Certificate holds the settings of a server that terminates TLS itself. With no field set it serves plain text, for a
// mesh or loopback. Embed it in a service's Config with the prefix "TLS_".
type Certificate struct {
	CertFile string `env:"CERT_FILE" doc:"PEM certificate chain of the listeners; empty for plain text"`
	KeyFile  string `env:"KEY_FILE" doc:"PEM private key of the certificate"`
}

// Config returns the server's configuration, or nil if TLS is off. The files are read again when they change, so that a
// renewed certificate needs no restart.
func (c Certificate) Config() (*tls.Config, error) { return TLS{Certificate: c}.Config() }

// TLS holds the settings of a server that may require client certificates.
type TLS struct {
	Certificate

	ClientCA string `env:"CLIENT_CA_FILE" doc:"PEM certificates that callers' certificates must come from (mutual TLS); empty asks for none"`
}

// FileChecks returns the checks of the settings' files for config.CheckFiles, given the prefix of the group.
func (c Certificate) FileChecks(group string) map[string]func() error {
	return fileChecks(group, c.CertFile, c.KeyFile, "", "")
}

// FileChecks is like Certificate.FileChecks.
func (t TLS) FileChecks(group string) map[string]func() error {
	return fileChecks(group, t.CertFile, t.KeyFile, "CLIENT_CA_FILE", t.ClientCA)
}

// FileChecks is like Certificate.FileChecks.
func (c ClientTLS) FileChecks(group string) map[string]func() error {
	return fileChecks(group, c.CertFile, c.KeyFile, "CA_FILE", c.CA)
}

// fileChecks returns the checks of a key pair and of the CAs, whose setting is caSetting.
func fileChecks(group, cert, key, caSetting, ca string) map[string]func() error {
	open := func(cert, key, ca string) func() error {
		return func() error {
			_, err := openFiles(cert, key, ca)
			return err
		}
	}
	readable := func(path string) func() error {
		return func() error {
			_, err := bounded.ReadFile(path, bounded.MaxFile)
			return err
		}
	}
	checks := map[string]func() error{
		group + "CERT_FILE": open(cert, key, ""),
		group + "KEY_FILE":  readable(key),
		group + caSetting:   open("", "", ca),
	}
	if key == "" {
		checks[group+"CERT_FILE"] = readable(cert) // Check names the missing key.
	}
	return checks
}

// Check returns which settings lack others, given the prefix of their names.
func (c Certificate) Check(prefix string) error { return checkPair(prefix, c.CertFile, c.KeyFile) }

// Check is like Certificate.Check.
func (t TLS) Check(prefix string) error {
	if t.ClientCA != "" && t.CertFile == "" && t.KeyFile == "" {
		return fmt.Errorf("%[1]sCLIENT_CA_FILE: only with %[1]sCERT_FILE and %[1]sKEY_FILE", prefix)
	}
	return t.Certificate.Check(prefix)
}

// Check is like Certificate.Check.
func (c ClientTLS) Check(prefix string) error { return checkPair(prefix, c.CertFile, c.KeyFile) }

func checkPair(prefix, cert, key string) error {
	if (cert == "") != (key == "") {
		return fmt.Errorf("%[1]sCERT_FILE, %[1]sKEY_FILE: want both or neither", prefix)
	}
	return nil
}

// Config is like Certificate.Config; the client CAs are read again too.
func (t TLS) Config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil // TLS off is a valid setting.
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

// optionalClientCert returns a server configuration that also accepts callers without a certificate. An invalid
// certificate still ends the handshake.
func optionalClientCert(config *tls.Config) *tls.Config {
	requiring := config.GetConfigForClient
	config = config.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := requiring(hello)
		if err == nil {
			now.ClientAuth = tls.VerifyClientCertIfGiven
		}
		return now, err
	}
	return config
}

// ClientTLS holds the settings of a TLS client of one of our services.
type ClientTLS struct {
	CertFile string `env:"CERT_FILE" doc:"PEM certificate chain that is shown to the service (mutual TLS); empty shows none"`
	KeyFile  string `env:"KEY_FILE" doc:"PEM private key of the certificate"`
	CA       string `env:"CA_FILE" doc:"PEM certificates that the service's certificate must come from; empty for those that the machine trusts"`
}

// Config returns a function that returns the configuration for a handshake, with the current content of the files.
func (c ClientTLS) Config() (func() *tls.Config, error) {
	files, err := openFiles(c.CertFile, c.KeyFile, c.CA)
	if err != nil {
		return nil, err
	}
	return func() *tls.Config { return files.now().client() }, nil
}

// Credentials returns the same configuration as gRPC credentials.
func (c ClientTLS) Credentials() (credentials.TransportCredentials, error) {
	files, err := openFiles(c.CertFile, c.KeyFile, c.CA)
	if err != nil {
		return nil, err
	}
	return reloadingCredentials{credentials.NewTLS(files.now().client()), files}, nil
}

// reloadingCredentials uses the current content of the files at each handshake.
type reloadingCredentials struct {
	credentials.TransportCredentials

	files *files
}

// ClientHandshake implements credentials.TransportCredentials.
func (r reloadingCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(r.files.now().client()).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (r reloadingCredentials) Clone() credentials.TransportCredentials {
	return reloadingCredentials{r.TransportCredentials.Clone(), r.files}
}

var errPair = errors.New("TLS: CERT_FILE and KEY_FILE go together")

// material is what a handshake needs: at most one key pair, and the CAs that the peer's certificate must come from, nil
// for the default ones.
type material struct {
	pair []tls.Certificate
	pool *x509.CertPool
}

func (m material) client() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: m.pair, RootCAs: m.pool}
}

// files holds the paths of a material and what was loaded from them. A path may be empty.
type files struct {
	cert, key, ca string

	mu     sync.Mutex
	loaded material
	stamps [3]int64 // modification times of what is loaded
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

// now returns the newest material that could be read: files that are just being replaced don't make handshakes fail.
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

// stamp returns when each file was last modified.
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
		pair, err := bounded.ReadKeyPair(f.cert, f.key)
		if err != nil {
			return material{}, fmt.Errorf("TLS certificate: %w", err)
		}
		m.pair = []tls.Certificate{pair}
	}
	if f.ca != "" {
		pem, err := bounded.ReadFile(f.ca, bounded.MaxFile)
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
