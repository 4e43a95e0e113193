package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/platform/apierr"
)

// Approvals calls the gateway for its approvals, and notify for the messages about them. It is safe for concurrent use.
type Approvals struct {
	client  *Client
	gateway *url.URL
}

var (
	_ approver.Gateway  = (*Approvals)(nil)
	_ approver.Notifier = (*Approvals)(nil)
)

// NewApprovals returns the approvals of the gateway at a URL. The token of the client has the role service or operator there.
func NewApprovals(client *Client, gateway *url.URL) *Approvals { return &Approvals{client, gateway} }

// states are the gateway's statuses of approvals.
var states = map[string]string{
	"pending": approver.Waiting, "approved": approver.Approved, "denied": approver.Denied, "expired": approver.Expired,
	"superseded": approver.Expired,
}

// Approval implements approver.Gateway.
func (a *Approvals) Approval(ctx context.Context, organization, ref string) (approver.Present, error) {
	var found struct {
		Status    string    `json:"status"`
		DecidedBy *string   `json:"decided_by"`
		ExpiresAt time.Time `json:"expires_at"`
		Call      *struct {
			Group string  `json:"approvers"`
			Cents float64 `json:"price_cents"`
		} `json:"call"`
	}
	status, err := a.client.call(ctx, http.MethodGet, a.gateway.JoinPath("/v1/approvals/", ref), organization, nil, &found)
	switch {
	case status == http.StatusNotFound:
		return approver.Present{}, approver.ErrGone
	case err != nil:
		return approver.Present{}, fmt.Errorf("approval of the gateway: %w", err)
	}
	p := approver.Present{State: states[found.Status], ExpiresAt: found.ExpiresAt, Group: approver.Default}
	if p.State == "" {
		return p, errors.New("approval of the gateway: the status is unknown")
	}
	if found.DecidedBy != nil {
		p.DecidedBy = *found.DecidedBy
	}
	if found.Call != nil {
		p.Cents, p.Group = found.Call.Cents, cmp.Or(found.Call.Group, approver.Default)
	}
	return p, nil
}

// Mint implements approver.Gateway.
func (a *Approvals) Mint(ctx context.Context, organization, ref, member, channel string) (string, error) {
	body := struct {
		Approver string `json:"approver"`
		Channel  string `json:"channel"`
	}{member, channel}
	var minted struct {
		Token string `json:"token"`
	}
	_, err := a.client.call(ctx, http.MethodPost, a.gateway.JoinPath("/v1/approvals/", ref, "/tokens"), organization, body, &minted)
	refusal := refusalOf(err)
	switch {
	case refusal != nil && (refusal.Reason == decision.ReasonDecided || refusal.Reason == decision.ReasonExpired || refusal.Status == http.StatusNotFound):
		return "", fmt.Errorf("%w: %w", approver.ErrGone, err)
	case refusal != nil && (refusal.Reason == decision.ReasonNotIndependent || refusal.Status != http.StatusForbidden && refused(refusal.Status)):
		return "", fmt.Errorf("%w: %w", approver.ErrRefused, err)
	case err != nil:
		return "", fmt.Errorf("token of the gateway: %w", err)
	case !decision.IsToken(minted.Token):
		return "", errors.New("token of the gateway: it has another form")
	}
	return minted.Token, nil
}

// Version implements approver.Gateway.
func (a *Approvals) Version(ctx context.Context, token string) (string, error) {
	d, err := a.Show(ctx, token)
	if refusal, ok := errors.AsType[*decision.RefusalError](err); ok && (refusal.Status == http.StatusGone || refusal.Status == http.StatusNotFound) {
		return "", fmt.Errorf("%w: %w", approver.ErrGone, err)
	}
	if err != nil {
		return "", err
	}
	return d.Version, nil
}

// Show returns what a token decides. The error of a refusal is a *decision.RefusalError.
func (a *Approvals) Show(ctx context.Context, token string) (*decision.Decision, error) {
	return a.decision(ctx, http.MethodGet, token, nil)
}

// Decide decides by a token. The error of a refusal is a *decision.RefusalError.
func (a *Approvals) Decide(ctx context.Context, token string, choice decision.Choice) (*decision.Decision, error) {
	return a.decision(ctx, http.MethodPost, token, choice)
}

// decision calls the gateway by a token. The token names the approval and its approver, so that the call names no
// organization.
func (a *Approvals) decision(ctx context.Context, method, token string, body any) (*decision.Decision, error) {
	var d decision.Decision
	_, err := a.client.call(ctx, method, a.gateway.JoinPath("/v1/decisions/", token), "", body, &d)
	if refusal := refusalOf(err); refusal != nil && refusesPerson(refusal) {
		return nil, refusal
	}
	if err != nil {
		return nil, fmt.Errorf("decision of the gateway: %w", err)
	}
	return &d, nil
}

// refusesPerson reports whether an answer of the gateway refuses a token's holder, and not the edge's service token.
func refusesPerson(r *decision.RefusalError) bool {
	return r.Status < http.StatusInternalServerError && r.Status != http.StatusUnauthorized && r.Reason != string(apierr.ReasonForbidden)
}

// refusalOf returns an answer of the gateway that is no success; nil if err is another error.
func refusalOf(err error) *decision.RefusalError {
	answer, ok := errors.AsType[*answered](err)
	if !ok {
		return nil
	}
	var body struct {
		Error  string `json:"error"`
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(answer.body, &body) // Without it the status is left.
	wait, _ := strconv.Atoi(answer.wait)
	return &decision.RefusalError{
		Status: answer.status, Reason: alert.Line(body.Error, maxRefusal), Text: alert.Line(body.Reason, maxRefusal),
		RetryAfter: time.Duration(max(wait, 0)) * time.Second,
	}
}

// asked is the body of POST /v1/notify for a message about an approval, and without target and channels that of its update.
type asked struct {
	Channels []string     `json:"channels,omitempty"`
	Subject  string       `json:"subject"`
	Message  string       `json:"message"`
	Target   *askedTarget `json:"target,omitempty"`
	Actions  []action     `json:"actions,omitempty"`
	Secret   string       `json:"secret,omitempty"`
	Key      string       `json:"idempotency_key"`
}

type askedTarget struct {
	User  string     `json:"user_id,omitempty"`
	Email string     `json:"email,omitempty"`
	Slack string     `json:"slack_channel,omitempty"`
	URL   string     `json:"url,omitempty"`
	Topic string     `json:"topic,omitempty"`
	TTL   int        `json:"ttl_seconds,omitempty"`
	Data  *askedData `json:"data,omitempty"`
}

// askedData is what a push hands to the service worker of the customer's page.
type askedData struct {
	Approval struct {
		Ref     string `json:"ref"`
		URL     string `json:"decide_url"`
		Version string `json:"display_version"`
		Proof   string `json:"proof"`
	} `json:"approval"`
}

type action struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Style string `json:"style,omitempty"`
	URL   string `json:"url,omitempty"`
	Value string `json:"value,omitempty"`
}

// bodyOf returns the text and the buttons of a message.
func bodyOf(m approver.Message) asked {
	body := asked{Subject: m.Subject, Message: m.Body, Secret: m.Secret, Key: m.Repeated}
	for _, b := range m.Buttons {
		body.Actions = append(body.Actions, action(b))
	}
	return body
}

// Send implements approver.Notifier.
func (a *Approvals) Send(ctx context.Context, organization string, m approver.Message) (string, error) {
	body := bodyOf(m)
	body.Channels = []string{m.Channel}
	body.Target = &askedTarget{User: m.User, Email: m.Email, Slack: m.Slack, URL: m.URL, Topic: m.Topic, TTL: m.TTL}
	if d := m.Decide; d != nil {
		body.Target.Data = new(askedData)
		at := &body.Target.Data.Approval
		at.Ref, at.URL, at.Version, at.Proof = d.Ref, d.URL, d.Version, d.Proof
	}
	var accepted struct {
		ID string `json:"notification_id"`
	}
	if err := a.notify(ctx, "/v1/notify", organization, body, &accepted); err != nil {
		return "", err
	}
	if accepted.ID == "" {
		return "", errors.New("notify: the answer has no notification_id")
	}
	return accepted.ID, nil
}

// Update implements approver.Notifier.
func (a *Approvals) Update(ctx context.Context, organization, notification string, m approver.Message) error {
	return a.notify(ctx, "/v1/notifications/sends/"+url.PathEscape(notification)+"/updates", organization, bodyOf(m), nil)
}

func (a *Approvals) notify(ctx context.Context, path, organization string, body, into any) error {
	status, err := a.client.call(ctx, http.MethodPost, a.client.notify.JoinPath(path), organization, body, into)
	switch {
	case err == nil:
		return nil
	case refused(status):
		return fmt.Errorf("notify: %w: %w", err, alert.ErrRefused)
	}
	return fmt.Errorf("notify: %w", err)
}
