package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"

	"switchyard.dev/services/platform/jsoncheck"
)

// Recorder notes the last refusal that an exchange met. The errors of vendors' libraries hold it only within the whole
// text of the answer, which may repeat what was sent.
type Recorder struct {
	mu      sync.Mutex
	refusal *RefusedError
}

// Record returns clients for one exchange, and what notes its refusals.
func (c Clients) Record() (Clients, *Recorder) {
	recorder := new(Recorder)
	of := func(client *http.Client) *http.Client {
		clone := *client
		clone.Transport = recorded{client.Transport, recorder}
		return &clone
	}
	return Clients{Token: of(c.Token), Metadata: of(c.Metadata)}, recorder
}

// recorded is a transport whose refusals are noted.
type recorded struct {
	next http.RoundTripper
	*Recorder
}

// RoundTrip implements http.RoundTripper.
func (r recorded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil || response.StatusCode < http.StatusMultipleChoices {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = &RefusedError{Host: request.URL.Host, Status: response.StatusCode, Code: oauthCode(body)}
	return response, nil
}

// Error returns the error of a failed exchange without the text of any answer.
func (r *Recorder) Error(err error, what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, network := errors.AsType[*url.Error](err); r.refusal != nil && !network {
		return r.refusal
	}
	return Plain(err, what)
}

// oauthCode returns the code of an error's body: Entra's number, the text of OAuth, or the status of Google's APIs.
func oauthCode(body []byte) string {
	if !jsoncheck.Valid(body) {
		return ""
	}
	var oauth struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &oauth) == nil {
		if number := EntraCode(oauth.Description); number != "" {
			return number
		}
		return Code(oauth.Error)
	}
	var api struct {
		Error struct {
			Status string `json:"status"`
			Type   string `json:"type"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &api) != nil {
		return ""
	}
	if status := Code(api.Error.Status); status != "" {
		return status
	}
	return Code(api.Error.Type)
}
