package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// bearer returns the header of a call with a token.
func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// firstParty returns the headers of a service that calls a stack.
func firstParty(s *stack.Stack) http.Header {
	header := bearer(s.Secrets().Service)
	header.Set("X-Organization-Id", stack.Organization)
	return header
}

// ask calls the contract of a stack's gateway; into may be nil.
func ask(ctx context.Context, s *stack.Stack, method, path, body string, into any) error {
	url := s.URL(string(stack.Gateway)) + path
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = firstParty(s)
	return send(request, into)
}

// operate calls a stack's operator API at control itself, so that the edge spends nothing on it; into may be nil.
func operate(ctx context.Context, s *stack.Stack, method, path, body string, into any) error {
	url := s.URL(string(stack.Control)) + path
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = bearer(s.Secrets().Operator)
	return send(request, into)
}

// planOf returns the plan that the edge applies to a key's organization, empty if it applies none.
func planOf(ctx context.Context, s *stack.Stack, key string) (string, error) {
	url := s.URL(string(stack.Edge)) + "/product/v1/_meta/limits"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Header = bearer(key)
	var applied struct{ Plan string }
	err = send(request, &applied)
	return applied.Plan, err
}

// send sends a request and decodes the JSON of the answer; into may be nil. A status other than 2xx is an error.
func send(request *http.Request, into any) error {
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", request.Method, request.URL, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%s %s: status %d: %w", request.Method, request.URL, answer.StatusCode, err)
	}
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: status %d: %s", request.Method, request.URL, answer.StatusCode, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// planName is the name of the plan that limitOrganization makes.
const planName = "load"

// highLimits is a plan whose limits are the highest that the edge accepts, so that no measurement reaches them.
const highLimits = `{"description":"never reached","limits":[
	{"meter":"calls","period":"day","amount":1000000000000,"kind":"hard"},
	{"meter":"calls","period":"month","amount":1000000000000,"kind":"hard"},
	{"meter":"tokens","period":"month","amount":1000000000000,"kind":"hard"},
	{"meter":"cents","period":"month","amount":900000000,"kind":"hard"}]}`

// limitOrganization puts the stack's organization on a plan with high limits. It returns once the edge applies the plan
// to calls with a key of the organization.
func limitOrganization(ctx context.Context, s *stack.Stack, key string) error {
	if err := operate(ctx, s, http.MethodPut, "/admin/v1/plans/"+planName, highLimits, nil); err != nil {
		return err
	}
	path, body := "/admin/v1/organizations/"+stack.Organization+"/plan", fmt.Sprintf(`{"plan":%q}`, planName)
	if err := operate(ctx, s, http.MethodPut, path, body, nil); err != nil {
		return err
	}
	const applyTime, pollEvery = 30 * time.Second, 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		applied, err := planOf(ctx, s, key)
		if err != nil {
			return err
		}
		if applied == planName {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("the edge applies the plan %q, want %q: %w", applied, planName, ctx.Err())
		}
	}
}
