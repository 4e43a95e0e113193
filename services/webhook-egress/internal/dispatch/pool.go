package dispatch

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"

	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// maxPools bounds the endpoints whose connections with a client certificate are kept; the one that was used least
// recently gives way.
const maxPools = 256

// Client is the client certificate of a request.
type Client struct {
	Endpoint delivery.ID
	// Auth is of the kind auth.MTLS.
	Auth auth.Auth
}

// pools holds a transport for each endpoint with a client certificate: no connection of one serves another. It is safe
// for concurrent use.
type pools struct {
	// open returns a new transport with a certificate.
	open func(tls.Certificate) *http.Transport

	mu         sync.Mutex
	byEndpoint map[delivery.ID]*pool
	uses       uint64
}

type pool struct {
	version   [sha256.Size]byte // of the certificate and key
	transport *http.Transport
	used      uint64
}

func newPools(open func(tls.Certificate) *http.Transport) *pools {
	return &pools{open: open, byEndpoint: make(map[delivery.ID]*pool)}
}

// of returns the transport of a client. A changed certificate replaces it.
func (p *pools) of(c *Client) (*http.Transport, error) {
	version := sha256.Sum256([]byte(c.Auth.Chain + "\x00" + c.Auth.Secret.Reveal()))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uses++
	found := p.byEndpoint[c.Endpoint]
	if found != nil && found.version == version {
		found.used = p.uses
		return found.transport, nil
	}
	certificate, err := c.Auth.ClientCertificate()
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	switch {
	case found != nil:
		p.drop(c.Endpoint)
	case len(p.byEndpoint) >= maxPools:
		p.drop(p.oldest())
	}
	made := &pool{version: version, transport: p.open(certificate), used: p.uses}
	p.byEndpoint[c.Endpoint] = made
	return made.transport, nil
}

// drop forgets a pool. Requests in flight end undisturbed; their connections close when they have been idle for long.
func (p *pools) drop(endpoint delivery.ID) {
	p.byEndpoint[endpoint].transport.CloseIdleConnections()
	delete(p.byEndpoint, endpoint)
}

func (p *pools) oldest() (endpoint delivery.ID) {
	least := p.uses
	for id, one := range p.byEndpoint {
		if one.used < least {
			endpoint, least = id, one.used
		}
	}
	return endpoint
}

func (p *pools) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.byEndpoint {
		p.drop(id)
	}
}
