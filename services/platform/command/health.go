package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"switchyard.dev/services/platform/bounded"
)

// Face is the HTTP listener of a service that runs on this machine.
type Face struct {
	// Listen is the address that it listens on, such as ":8101".
	Listen string
	// CertFile is the file with the certificate that it shows; empty for plain text.
	CertFile string
}

// maxReport bounds how much of an answer is read, in bytes.
const maxReport = 512

// Ready returns nil if the service answers that it is ready, and otherwise why not, in one line. ctx bounds the wait.
func (f Face) Ready(ctx context.Context) error {
	address, err := f.local()
	if err != nil {
		return err
	}
	at := url.URL{Scheme: "http", Host: address, Path: "/health/ready"}
	transport := &http.Transport{DisableKeepAlives: true} // Without a proxy: the service is on this machine.
	if f.CertFile != "" {
		at.Scheme = "https"
		if transport.TLSClientConfig, err = pinned(f.CertFile); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s: no answer in time", at.String())
		}
		return errors.New(oneLine(err.Error()))
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	report, err := io.ReadAll(io.LimitReader(answer.Body, maxReport))
	if err != nil {
		report = nil // The status says enough.
	}
	return fmt.Errorf("%s: not ready, status %d %s", at.String(), answer.StatusCode, oneLine(string(report)))
}

// local returns the address at which this machine reaches the listener: loopback where it listens on all addresses.
func (f Face) local() (string, error) {
	host, port, err := net.SplitHostPort(f.Listen)
	if err != nil || port == "" || port == "0" {
		return "", fmt.Errorf("%q: want the address of a listener with its port, such as :8080", f.Listen)
	}
	switch ip := net.ParseIP(host); {
	case host == "", ip.Equal(net.IPv4zero):
		host = "127.0.0.1"
	case ip.Equal(net.IPv6unspecified):
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}

var errNoCertificate = errors.New("holds no PEM certificate")

// pinned returns the configuration of a client that accepts exactly the certificate in a file, for any of its names.
func pinned(file string) (*tls.Config, error) {
	text, err := bounded.ReadFile(file, bounded.MaxFile)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: %w", file, errNoCertificate)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, errNoCertificate)
	}
	own := x509.NewCertPool()
	own.AddCert(certificate)
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: own}
	switch {
	case len(certificate.DNSNames) > 0:
		config.ServerName = strings.Replace(certificate.DNSNames[0], "*", "any", 1)
	case len(certificate.IPAddresses) > 0:
		config.ServerName = certificate.IPAddresses[0].String()
	}
	return config, nil
}

// oneLine returns a text in one line of printable characters.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' }), " ")
}
