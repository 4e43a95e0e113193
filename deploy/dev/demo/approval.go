package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const metricTool = "tool_requests"

const (
	paymentServer = "payments" // as the policy of `make run` names it
	paymentTool   = "pay"
	approverGroup = "default"
	largeAmount   = 500

	listingTimeout = 15 * time.Second
	linkTimeout    = 15 * time.Second
	rowTimeout     = 2 * time.Second
)

// approve has an agent make a large payment, which a rule of the policy holds, and approves it as the person whose inbox
// has the notice.
func (s *show) approve(ctx context.Context) error {
	remove, err := s.prepareTools(ctx)
	if err != nil {
		return err
	}
	defer remove()
	before, err := s.inbox(ctx)
	if err != nil {
		return err
	}
	payee := fmt.Sprintf("bert-%d", time.Now().UnixMilli())
	since := time.Now().Add(-time.Minute) // The clocks of the stores may differ a little.
	s.sent("an agent calls %s__%s: %d to %s", paymentServer, paymentTool, largeAmount, payee)
	begun := time.Now()
	steps, deciding := errgroup.WithContext(ctx)
	var paid string
	var decided atomic.Bool
	steps.Go(func() (err error) {
		if paid, err = s.pay(deciding, payee); err == nil && !decided.Load() {
			err = errNotHeld
		}
		return err
	})
	steps.Go(func() error { return s.decide(deciding, before, &decided) })
	if err := steps.Wait(); err != nil {
		return err
	}
	s.got(time.Since(begun), "%s", paid)
	return s.accounts(ctx, payee, since)
}

var errNotHeld = errors.New("the call was not held: the gateway's policy has no rule for it (make run's own has one, unless GATEWAY_POLICY_FILE names another)")

// prepareTools registers the tool server, trusts it and approves its definitions, unless it is registered, and makes a group
// of approvers unless there is one. remove removes what it registered.
func (s *show) prepareTools(ctx context.Context) (remove func(), err error) {
	remove = func() {}
	servers := s.env.GatewayURL + "/v1/mcp/servers"
	registered, err := s.face(ctx, http.MethodPost, servers, map[string]any{
		"server_id": paymentServer, "url": s.env.ToolServerURL, "price_per_call_cents": 0.5, "registered_by": "ada",
	})
	switch {
	case err != nil:
		return remove, err
	case registered.status == http.StatusCreated:
		remove = func() { // It was only for the demo. What is left of it does no harm.
			_, _ = s.face(context.WithoutCancel(ctx), http.MethodDelete, servers+"/"+paymentServer, nil)
		}
		trusted, err := s.face(ctx, http.MethodPost, s.env.GatewayURL+"/v1/mcp/trust", map[string]any{
			"server_id": paymentServer, "level": "COMMUNITY", "assigned_by": "ada",
		})
		if err == nil {
			err = trusted.decode(http.StatusCreated, &struct{}{})
		}
		if err != nil {
			return remove, err
		}
	case registered.status != http.StatusConflict: // It is there from the walk.
		return remove, registered.decode(http.StatusCreated, nil)
	}
	if err := s.review(ctx, servers+"/"+paymentServer); err != nil {
		return remove, err
	}
	return remove, s.ensureApprovers(ctx)
}

// review waits for the listing of the tool server and approves the definitions that wait.
func (s *show) review(ctx context.Context, server string) error {
	var listed struct {
		Listing string `json:"listing_digest"`
		Tools   int    `json:"tools"`
		Pending int    `json:"tools_pending"`
	}
	err := until(ctx, listingTimeout, "the listing of the tool server", func(ctx context.Context) (bool, error) {
		err := s.get(ctx, server, &listed)
		return listed.Listing != "", err
	})
	if err != nil {
		return err
	}
	if listed.Pending > 0 {
		reviewed, err := s.face(ctx, http.MethodPost, server+"/review", map[string]any{
			"listing_digest": listed.Listing, "decision": "approve", "reviewed_by": "bob",
		})
		if err == nil {
			err = reviewed.decode(http.StatusOK, &struct{}{})
		}
		if err != nil {
			return err
		}
	}
	s.fact("server", "%s with %d tools: registered and trusted by ada, reviewed by bob", paymentServer, listed.Tools)
	return nil
}

// ensureApprovers makes a group of approvers unless the organization has one of its name. Other groups stay.
func (s *show) ensureApprovers(ctx context.Context) error {
	approvers := call{method: http.MethodGet, url: s.env.EdgeURL + "/admin/v1/approvers/" + url.PathEscape(s.env.OrganizationID), bearer: s.env.OperatorToken}
	a, err := s.do(ctx, approvers)
	if err != nil {
		return err
	}
	var known struct {
		Groups []json.RawMessage `json:"groups"`
	}
	if err := a.decode(http.StatusOK, &known); err != nil {
		return err
	}
	named := func(group json.RawMessage) bool {
		var g struct{ Name string }
		return json.Unmarshal(group, &g) == nil && g.Name == approverGroup
	}
	if slices.ContainsFunc(known.Groups, named) {
		return nil
	}
	group, _ := json.Marshal(map[string]any{ // strings always marshal
		"name": approverGroup, "members": []any{map[string]string{"user_id": reader}},
		"steps": []any{map[string]any{"after": "0s", "channels": []string{"in_app"}}},
	})
	body, err := json.Marshal(map[string]any{"groups": append(known.Groups, group)})
	if err != nil {
		return err
	}
	approvers.method, approvers.body = http.MethodPut, string(body)
	if a, err = s.do(ctx, approvers); err != nil {
		return err
	}
	return a.decode(http.StatusOK, &struct{}{})
}

// pay calls the tool as an agent does, and returns what it answers once the call was made.
func (s *show) pay(ctx context.Context, payee string) (string, error) {
	body, _ := json.Marshal(map[string]any{ // strings and numbers always marshal
		"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
			"name": paymentServer + "__" + paymentTool, "arguments": map[string]any{"to": payee, "amount": largeAmount},
		},
	})
	a, err := s.do(ctx, call{method: http.MethodPost, url: s.env.EdgeURL + "/product/v1/mcp", bearer: s.env.AIKey, body: string(body)})
	if err != nil {
		return "", err
	}
	var answered struct {
		Result struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := a.message().decode(http.StatusOK, &answered); err != nil {
		return "", err
	}
	s.expected[metricTool]++
	switch {
	case answered.Error != nil:
		return "", fmt.Errorf("the call is refused: %s", answered.Error.Message)
	case len(answered.Result.Content) == 0:
		return "", errEmpty
	}
	return answered.Result.Content[0].Text, nil
}

// decide waits for the notice in the inbox and approves the call with a token of the inbox's user. It sets decided before
// the decision.
func (s *show) decide(ctx context.Context, before inbox, decided *atomic.Bool) error {
	notice, err := s.noticeOfCall(ctx, before)
	if err != nil {
		return err
	}
	s.fact("held", "%s has a link: %s", reader, notice.Subject)
	token, err := s.deciderToken(ctx)
	if err != nil {
		return err
	}
	decision := call{method: http.MethodGet, url: s.env.EdgeURL + "/product/v1/ai/approvals/" + path.Base(notice.URL) + "/decision", bearer: token}
	a, err := s.do(ctx, decision)
	if err != nil {
		return err
	}
	var shown struct {
		Version string `json:"display_version"`
	}
	if err := a.decode(http.StatusOK, &shown); err != nil {
		return fmt.Errorf("read the call to decide on: %w", err)
	}
	body, _ := json.Marshal(map[string]string{"decision": "approve", "reason": "agreed", "display_version": shown.Version}) // strings always marshal
	decision.method, decision.body = http.MethodPost, string(body)
	decided.Store(true)
	if a, err = s.do(ctx, decision); err != nil {
		return err
	}
	var recorded struct {
		Status string `json:"status"`
		By     string `json:"decided_by"`
		Via    string `json:"decided_via"`
	}
	if err := a.decode(http.StatusOK, &recorded); err != nil {
		return fmt.Errorf("decide: %w", err)
	}
	s.fact("decided", "%s by %s via %s", recorded.Status, recorded.By, recorded.Via)
	return nil
}

// noticeOfCall waits for the inbox's new notice that a call needs an approval.
func (s *show) noticeOfCall(ctx context.Context, before inbox) (notice record, err error) {
	err = until(ctx, linkTimeout, "the link in "+reader+"'s inbox", func(ctx context.Context) (bool, error) {
		now, err := s.inbox(ctx)
		i := slices.IndexFunc(now.Notifications, func(r record) bool {
			return strings.HasPrefix(r.Subject, "Approval needed: "+paymentServer+"/"+paymentTool) &&
				!slices.ContainsFunc(before.Notifications, func(old record) bool { return old.NotificationID == r.NotificationID })
		})
		if i >= 0 {
			notice = now.Notifications[i]
		}
		return i >= 0, err
	})
	return notice, err
}

// deciderToken mints a token with which the reader decides, as a product does for a person who is signed in.
func (s *show) deciderToken(ctx context.Context) (string, error) {
	body, _ := json.Marshal(map[string]any{ // strings and numbers always marshal
		"organization_id": s.env.OrganizationID, "user_id": reader, "scopes": []string{"ai:decisions:decide"}, "ttl_seconds": 60,
	})
	a, err := s.do(ctx, call{method: http.MethodPost, url: s.env.EdgeURL + "/admin/v1/tokens", bearer: s.env.OperatorToken, body: string(body)})
	if err != nil {
		return "", err
	}
	var minted struct {
		Token string `json:"token"`
	}
	if err := a.decode(http.StatusCreated, &minted); err != nil {
		return "", fmt.Errorf("mint a token for %s: %w", reader, err)
	}
	return minted.Token, nil
}

// accounts reads what the books have of the call: the approval, and the row of the ledger.
func (s *show) accounts(ctx context.Context, payee string, since time.Time) error {
	var approvals struct {
		Approvals []struct {
			Arguments struct {
				To string `json:"to"`
			} `json:"arguments"`
			DecidedBy string `json:"decided_by"`
			Call      struct {
				State    string `json:"state"`
				Attempts int    `json:"attempts"`
				Rule     string `json:"rule"`
			} `json:"call"`
		} `json:"approvals"`
	}
	if err := s.get(ctx, s.env.GatewayURL+"/v1/approvals?status=approved", &approvals); err != nil {
		return err
	}
	for _, a := range approvals.Approvals {
		if a.Arguments.To != payee {
			continue
		}
		s.fact("approval", "rule %s, decided by %s, %s after %d attempt", a.Call.Rule, a.DecidedBy, a.Call.State, a.Call.Attempts)
		if a.Call.State != "done" || a.Call.Attempts != 1 {
			return errors.New("the call was not made exactly once")
		}
		return s.row(ctx, since)
	}
	return errors.New("the approval is not on record")
}

// row shows the newest row that the ledger has of the tool.
func (s *show) row(ctx context.Context, since time.Time) error {
	query := url.Values{"provider": {"mcp/" + paymentServer}, "model": {paymentTool}, "since": {since.UTC().Format(time.RFC3339)}, "limit": {"200"}}
	var page struct {
		Records []struct {
			Operation string  `json:"operation"`
			Provider  string  `json:"provider"`
			Model     string  `json:"model"`
			Outcome   string  `json:"outcome"`
			Cents     float64 `json:"cost_cents"`
		} `json:"records"`
	}
	// A transaction that is in progress anywhere in Postgres delays the feed.
	err := until(ctx, rowTimeout, "the call's row of the ledger", func(ctx context.Context) (bool, error) {
		err := s.get(ctx, s.env.GatewayURL+"/v1/usage?"+query.Encode(), &page)
		return len(page.Records) > 0, err
	})
	if err != nil {
		return err
	}
	r := page.Records[len(page.Records)-1]
	s.fact("ledger", "%s %s/%s, %s, %g cents", r.Operation, r.Provider, r.Model, r.Outcome, r.Cents)
	return nil
}
