package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"switchyard.dev/deploy/dev/process"
)

// Key describes a product key to create.
type Key struct {
	Organization string
	Product      string
	Permission   string // permissions and scopes, separated by commas
	Name         string
}

// CreateKey creates a product key and returns its text, which can't be retrieved again.
func (s *Stack) CreateKey(ctx context.Context, k Key) (string, error) {
	cmd := s.Command(ctx, Edge, "keys", "create", "--json",
		"--org", k.Organization, "--product", k.Product, "--permission", k.Permission, "--name", k.Name)
	var output, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("make key %s: %w: %s", k.Name, err, strings.TrimSpace(complaint.String()))
	}
	var made struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(output.Bytes(), &made); err != nil {
		return "", fmt.Errorf("make key %s: read the edge's answer: %w", k.Name, err)
	}
	if made.Key == "" {
		return "", fmt.Errorf("make key %s: %w", k.Name, errNoKey)
	}
	return made.Key, nil
}

var errNoKey = errors.New("the edge answered without a key")

// EnsureKey returns the known key when the edge still accepts it on a route of its product, and otherwise creates
// one: a new database doesn't hold the keys of the last.
func (s *Stack) EnsureKey(ctx context.Context, known, route string, k Key) (string, error) {
	if known != "" {
		accepted, err := s.accepts(ctx, known, route)
		if err != nil {
			return "", fmt.Errorf("try key %s: %w", k.Name, err)
		}
		if accepted {
			return known, nil
		}
	}
	return s.CreateKey(ctx, k)
}

// accepts calls a route with a body that no operation accepts and reports whether the key passes the check before
// that.
func (s *Stack) accepts(ctx context.Context, key, route string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL(string(Edge))+route, strings.NewReader("{"))
	if err != nil {
		return false, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	client := &http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return false, err
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden, nil
}

// How returns how the member ended as text.
func (e Exit) How() string { return process.Describe(e.Result) }
