package netguard

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	maxHeaderBytes  = 64 << 10
	maxIdle         = 512
	idleTimeout     = 60 * time.Second // A kept connection isn't checked again: bounds how long an old rule applies.
	pingAfter       = 15 * time.Second
	pingTimeout     = 5 * time.Second
	continueTimeout = time.Second
)

// TransportOptions bound the steps of a request. A zero value means the default named here.
type TransportOptions struct {
	ConnectTimeout  time.Duration  // lookup and TCP; default and maximum 5 s
	TLSHandshake    time.Duration  // 5 s
	ResponseHeader  time.Duration  // from the end of the request to the end of the response header; 30 s
	MaxIdlePerHost  int            // 4
	MaxConnsPerHost int            // no limit
	RootCAs         *x509.CertPool // default: the machine's
}

// Transport returns a transport that dials through the guard. It ignores proxy variables of the environment, requests
// no compression (so that a small body can't unpack to a large one) and reads response headers of at most 64 KiB. A
// caller that uses it without [Guard.Client] must not follow redirects unchecked.
func (g *Guard) Transport(o TransportOptions) *http.Transport {
	connect := cmp.Or(o.ConnectTimeout, connectTimeout)
	return &http.Transport{
		Proxy: nil,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connect)
			defer cancel()
			return g.DialContext(ctx, network, addr)
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSHandshakeTimeout:    cmp.Or(o.TLSHandshake, 5*time.Second),
		ResponseHeaderTimeout:  cmp.Or(o.ResponseHeader, 30*time.Second),
		ExpectContinueTimeout:  continueTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    cmp.Or(o.MaxIdlePerHost, 4),
		MaxConnsPerHost:        o.MaxConnsPerHost,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

// Client returns a client over a guarded transport. timeout bounds each request from the dial to the end of the body. A
// redirect is returned as the response and never followed. There is no cookie jar.
func (g *Guard) Client(timeout time.Duration, o TransportOptions) *http.Client {
	return &http.Client{
		Transport: g.Transport(o),
		Timeout:   timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// ReadStart reads at most limit bytes of a response's body. It reads nothing from a response that changes the protocol
// (101): its body is the connection itself, to which neither the request's context nor a client's timeout applies.
func ReadStart(response *http.Response, limit int64) ([]byte, error) {
	if response.ContentLength == 0 || response.StatusCode == http.StatusSwitchingProtocols {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(response.Body, limit))
}
