package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Signer signs requests with AWS's Signature Version 4. It implements provider.Signer. Safe for concurrent use.
type Signer struct {
	credentials     aws.Credentials
	region, service string
	// signer keeps one derived key for each region and service, and therefore serves one credential.
	signer *v4.Signer
}

// NewSigner returns a Signer for one service of a region. Paths are escaped twice, as all services but S3 want it.
func NewSigner(c aws.Credentials, region, service string) *Signer {
	return &Signer{credentials: c, region: region, service: service, signer: v4.NewSigner()}
}

// unsigned are the headers that a transport or a proxy may add, change or remove. A signature over them would not match
// what arrives.
var unsigned = func() map[string]bool {
	names := make(map[string]bool)
	for _, name := range []string{
		"Accept-Encoding", "Baggage", "Connection", "Expect", "Forwarded", "Keep-Alive", "Priority", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Traceparent", "Tracestate", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Via",
		"X-Amzn-Trace-Id", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
	} {
		names[textproto.CanonicalMIMEHeaderKey(name)] = true
	}
	return names
}()

// Sign implements provider.Signer.
func (s *Signer) Sign(ctx context.Context, r *http.Request, sum [sha256.Size]byte, at time.Time) error {
	// What is not signed is taken off while the library signs all that it finds.
	sent := r.Header
	signed := make(http.Header, len(sent)+3)
	for name, values := range sent {
		if !unsigned[name] {
			signed[name] = values
		}
	}
	for _, name := range own {
		delete(signed, name)
	}
	r.Header = signed
	err := s.signer.SignHTTP(ctx, s.credentials, r, hex.EncodeToString(sum[:]), s.service, s.region, at)
	r.Header = sent
	if err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	for _, name := range own {
		delete(sent, name)
		if values := signed[name]; values != nil {
			sent[name] = values
		}
	}
	return nil
}

// Redact returns a text without the secrets of the key. AWS repeats the signed headers in the text of a refusal.
func (s *Signer) Redact(text string) string {
	for _, value := range []string{s.credentials.SecretAccessKey, s.credentials.SessionToken} {
		if value != "" {
			text = strings.ReplaceAll(text, value, "[redacted]")
		}
	}
	return text
}

// own are the headers of a signature: those of an earlier one are replaced.
var own = []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"}
