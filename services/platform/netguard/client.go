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
	idleTimeout     = 60 * time.Second // a kept connection isn't checked again: bounds how long an old rule lasts
	pingAfter       = 15 * time.Second
	pingTimeout     = 5 * time.Second
	continueTimeout = time.Second
)

// TransportOptions bound the steps of a request. Zero values mean the defaults
// named here.
type TransportOptions struct {
	ConnectTimeout  time.Duration  // lookup and TCP; 5 s, which is also the most
	TLSHandshake    time.Duration  // 5 s
	ResponseHeader  time.Duration  // from the end of the request to that of the response header; 30 s
	MaxIdlePerHost  int            // 4
	MaxConnsPerHost int            // no limit
	RootCAs         *x509.CertPool // the machine's
}

// Transport dials through the guard. It uses no proxy of the environment, asks
// for no compression (a small body can't unpack to a large one) and reads
// response headers of at most 64 KiB. A caller that uses it without [Guard.Client]
// must not follow redirects unchecked.
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

// Client makes requests through a guarded transport, each within timeout from
// dial to the end of the body. A redirect is returned as the response it is,
// never followed; cookies aren't kept.
func (g *Guard) Client(timeout time.Duration, o TransportOptions) *http.Client {
	return &http.Client{
		Transport: g.Transport(o),
		Timeout:   timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// ReadStart reads at most limit bytes of an answer's body. Of an answer that changes
// the protocol (101) it reads nothing: that body is the connection itself, which
// neither the request's context nor a client's timeout ends.
func ReadStart(response *http.Response, limit int64) ([]byte, error) {
	if response.ContentLength == 0 || response.StatusCode == http.StatusSwitchingProtocols {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(response.Body, limit))
}
