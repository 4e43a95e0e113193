package identity

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Errors of exchanges whose answers are not read.
var (
	ErrRedirected = errors.New("the token server redirects, which is not followed")
	ErrTooLarge   = errors.New("the token server's answer is too large")
)

const (
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 1 << 20
	// exchangeTime bounds an exchange with all its calls.
	exchangeTime = 20 * time.Second
	// callTime bounds one call.
	callTime = 15 * time.Second
)

// Clients make the calls of exchanges. Both follow no redirects, and read 1 MiB of an answer at most.
type Clients struct {
	// Token calls token servers, through the proxy if there is one.
	Token *http.Client
	// Metadata calls the servers that a cloud has in each machine, which no proxy reaches.
	Metadata *http.Client
}

// NewClients returns clients over two transports; the one for metadata must use no proxy.
func NewClients(token, metadata http.RoundTripper) Clients {
	return Clients{Token: newClient(token), Metadata: newClient(metadata)}
}

// For returns the client for an address.
func (c Clients) For(host string) *http.Client {
	if IsMetadata(host) {
		return c.Metadata
	}
	return c.Token
}

func newClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: bounded{transport}, Timeout: callTime, CheckRedirect: func(*http.Request, []*http.Request) error {
		return ErrRedirected
	}}
}

// bounded limits the size of answers.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.ContentLength > maxAnswer {
		return nil, errors.Join(ErrTooLarge, response.Body.Close())
	}
	response.Body = &limited{response.Body, maxAnswer}
	return response, nil
}

// limited is a body that fails behind its limit. io.LimitReader would end it as if it were whole.
type limited struct {
	io.ReadCloser

	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		var one [1]byte
		if n, err := l.ReadCloser.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, ErrTooLarge
	}
	n, err := l.ReadCloser.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// Call makes a call and returns its answer's headers and body. An answer that is not 200 is a RefusedError; no error
// holds the text of an answer.
func Call(client *http.Client, r *http.Request) (http.Header, []byte, error) {
	header, body, err := call(client, r)
	if err != nil {
		return nil, nil, Plain(err, "call the token server")
	}
	return header, body, nil
}

func call(client *http.Client, r *http.Request) (http.Header, []byte, error) {
	response, err := client.Do(r) //nolint:gosec // The address is one of the configuration.
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // Nothing was written.
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, &RefusedError{Host: r.URL.Host, Status: response.StatusCode, Code: oauthCode(body)}
	}
	return response.Header, body, nil
}
