package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	requestTimeout = 30 * time.Second
	maxAnswer      = 4 << 20
)

// call is one request to the stack.
type call struct {
	method       string
	url          string
	bearer       string
	organization string // for the capability face
	body         string // JSON
	form         string // in place of the body
}

// answer is a response, read to its end.
type answer struct {
	status int
	body   []byte
	took   time.Duration
}

func (c call) request(ctx context.Context) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, c.method, c.url, strings.NewReader(c.body+c.form))
	if err != nil {
		return nil, err
	}
	switch {
	case c.form != "":
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	case c.body != "":
		request.Header.Set("Content-Type", "application/json")
	}
	if c.bearer != "" {
		request.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	if c.organization != "" {
		request.Header.Set("X-Organization-Id", c.organization)
	}
	return request, nil
}

// do makes the call and reads the answer.
func (s *show) do(ctx context.Context, c call) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := c.request(ctx)
	if err != nil {
		return answer{}, err
	}
	begun := time.Now()
	response, err := s.http.Do(request)
	if err != nil {
		return answer{}, unreachable(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: %w", c.method, c.url, err)
	}
	return answer{response.StatusCode, body, time.Since(begun)}, nil
}

// face calls the capability face, with a body unless it is nil.
func (s *show) face(ctx context.Context, method, url string, body any) (answer, error) {
	c := call{method: method, url: url, bearer: s.env.ServiceToken, organization: s.env.OrganizationID}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		c.body = string(text)
	}
	return s.do(ctx, c)
}

// get reads a resource of the capability face.
func (s *show) get(ctx context.Context, url string, into any) error {
	a, err := s.face(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return a.decode(http.StatusOK, into)
}

// decode parses the answer as JSON. For another status than wanted, it returns an error that holds the start of the
// body.
func (a answer) decode(want int, into any) error {
	if a.status != want {
		return fmt.Errorf("answered %d, not %d: %s", a.status, want, shorten(string(bytes.TrimSpace(a.body)), 300))
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("the answer isn't JSON of the expected form (%w): %s", err, shorten(string(a.body), 300))
	}
	return nil
}

// message returns the answer with the last event in place of a stream, as a call that takes long is answered.
func (a answer) message() answer {
	if bytes.HasPrefix(a.body, []byte("{")) {
		return a
	}
	_ = readEvents(bytes.NewReader(a.body), func(e event) error { // Reading from memory fails only for an event beyond the bound.
		a.body = []byte(e.data)
		return nil
	})
	return a
}

// unreachable replaces net/http's wrapping of a connection error with a hint at the cause.
func unreachable(err error) error {
	return fmt.Errorf("%w (is the stack running? `make run` starts it)", err)
}

const pollEvery = 40 * time.Millisecond

// until calls step until it is done or returns an error, for at most timeout.
func until(ctx context.Context, timeout time.Duration, what string, step func(context.Context) (done bool, err error)) error {
	deadline, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%s: not within %s", what, timeout))
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		done, err := step(deadline)
		if err != nil && deadline.Err() != nil {
			err = context.Cause(deadline)
		}
		if done || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-deadline.Done():
			return context.Cause(deadline)
		}
	}
}

// shorten cuts a text to limit for the screen.
func shorten(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit]) + "…"
}

var errEmpty = errors.New("the answer is empty")
