package dispatch

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"testing"
	"time"

	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// A transport belongs to one endpoint and one certificate. Their number is bounded: the one used least recently goes.
func TestPools(t *testing.T) {
	opened := 0
	p := newPools(func(tls.Certificate) *http.Transport { opened++; return &http.Transport{} })
	of := func(endpoint delivery.ID, a auth.Auth) *http.Transport {
		t.Helper()
		transport, err := p.of(&Client{Endpoint: endpoint, Auth: a})
		if err != nil {
			t.Fatal(err)
		}
		return transport
	}
	a, b := certificate(t), certificate(t)
	ids := make([]delivery.ID, maxPools+1)
	for i := range ids {
		ids[i] = delivery.NewID(time.Now())
	}
	first := of(ids[0], a)
	if of(ids[0], a) != first || of(ids[1], a) == first {
		t.Error("a transport is not its endpoint's")
	}
	if changed := of(ids[0], b); changed == first || of(ids[0], b) != changed {
		t.Error("a new certificate has the old transport")
	}
	first = of(ids[0], b)
	for _, id := range ids[1:maxPools] {
		of(id, a)
	}
	if of(ids[0], b) != first {
		t.Error("dropped while there was room")
	}
	of(ids[maxPools], a)
	if len(p.byEndpoint) != maxPools || p.byEndpoint[ids[1]] != nil || p.byEndpoint[ids[0]] == nil {
		t.Errorf("%d are kept, the oldest %t, the one just used %t", len(p.byEndpoint), p.byEndpoint[ids[1]] != nil, p.byEndpoint[ids[0]] != nil)
	}
	if want := maxPools + 2; opened != want {
		t.Errorf("%d were opened, want %d", opened, want)
	}
	p.close()
	if len(p.byEndpoint) != 0 {
		t.Errorf("%d are kept after the end", len(p.byEndpoint))
	}
}

func certificate(t *testing.T) auth.Auth {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a, err := auth.NewMTLS(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})), now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
