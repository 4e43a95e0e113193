package channel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/platform/secret"
)

// The hosts of Slack's incoming webhooks.
const slackHost, slackGovHost = "hooks.slack.com", "hooks.slack-gov.com"

// maxSlackText is the longest text that Slack accepts, in characters.
const maxSlackText = 40_000

// SlackOptions configures a SlackSender.
type SlackOptions struct {
	// URLs holds the webhook URLs of organizations with one of their own.
	URLs Directory
	// Origins are allowed for webhook URLs in addition to Slack's own, such as http://127.0.0.1:8192; for
	// development.
	Origins []string
	// Tokens holds the bot tokens of organizations with an app.
	Tokens Directory
	// API is the base URL of Slack's Web API, without a slash at its end.
	API    string
	Poster *Poster
}

// SlackSender is the slack channel: incoming webhooks, and the organization's app. It is Sender and Transport.
type SlackSender struct{ o SlackOptions }

// NewSlack returns the slack channel.
func NewSlack(o SlackOptions) *SlackSender { return &SlackSender{o} }

// slackWork is the stored form of a message. It holds a URL only when the request named one: the organization's own
// is read for each attempt. With a Place it goes through the app, and the URL is slackNoURL.
//
// Secret is the message's secret; with one the log keeps no text of Slack's answer.
type slackWork struct {
	URL    string       `json:"url,omitempty"`
	Place  string       `json:"place,omitempty"`
	Text   string       `json:"text"`
	Blocks []slackBlock `json:"blocks,omitempty"`
	Secret string       `json:"secret,omitempty"`
}

// Channel returns Slack.
func (*SlackSender) Channel() Name { return Slack }

// Prepare implements Sender.
func (s *SlackSender) Prepare(_ context.Context, m Message) (Work, error) {
	if m.Target.SlackChannel != "" {
		return s.prepareApp(m)
	}
	m = m.Public()
	raw := m.Target.WebhookURL
	if raw == "" {
		own, err := s.o.URLs.Of(m.Organization)
		if err != nil {
			return Work{}, NotAccepted(Slack, "target.webhook_url", "required, since the organization has no URL of its own")
		}
		raw = own.Reveal()
	}
	u := s.check(raw)
	if u == nil {
		return Work{}, NotAccepted(Slack, "target.webhook_url",
			"must be an incoming webhook: https://"+slackHost+"/services/..., /workflows/... or /triggers/...")
	}
	return slackWork{URL: m.Target.WebhookURL}.of(m, maxSlackText, u.Scheme+"://"+u.Host, u.String())
}

// of returns the work of a message whose text has at most so many characters. Messages with the same lane share a rate.
func (w slackWork) of(m Message, most int, destination, lane string) (Work, error) {
	w.Secret, m = m.Secret, m.Private()
	whole := slackText(m.Subject, m.Text)
	text, cut := cutSlack(whole, most)
	blocks, cutBlocks := slackBlocks(whole, m.Actions)
	if len(blocks) > 0 {
		cut = cutBlocks // The text is what notifications show.
	}
	w.Text, w.Blocks = text, blocks
	body, err := json.Marshal(w) //nolint:gosec // G117: it is sealed before it is stored.
	if err != nil {
		return Work{}, fmt.Errorf("encode slack work: %w", err)
	}
	return Work{
		Channel: Slack, Body: body, Destination: destination, Lane: laneOf(lane), Truncated: cut, ActionsShown: len(m.Actions),
	}, nil
}

// laneOf returns a digest of name as a lane, since a name may be a credential.
func laneOf(name string) string {
	digest := sha256.Sum256([]byte(name))
	return hex.EncodeToString(digest[:16])
}

// check parses the URL of an incoming webhook; nil if it is not one.
func (s *SlackSender) check(raw string) *url.URL {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Fragment != "" || u.Opaque != "" || strings.Contains(u.Path, "..") || strings.ContainsAny(raw, " \\\t\r\n") {
		return nil
	}
	ours := u.Scheme == "https" && (u.Host == slackHost || u.Host == slackGovHost)
	if !ours && !slices.Contains(s.o.Origins, u.Scheme+"://"+u.Host) {
		return nil
	}
	for _, kind := range []string{"/services/", "/workflows/", "/triggers/"} {
		if rest, ok := strings.CutPrefix(u.Path, kind); ok && rest != "" {
			return u
		}
	}
	return nil
}

// slackText returns a message as Slack displays it. The three control characters of Slack are escaped, as its manual
// requires.
func slackText(subject, message string) string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
	if subject == "" {
		return escape(message)
	}
	return "*" + escape(subject) + "*\n" + escape(message)
}

// slackMissingDelay is how long a message waits for its organization's URL.
const slackMissingDelay = time.Minute

// Deliver implements Transport.
func (s *SlackSender) Deliver(ctx context.Context, t Task) Outcome {
	var work slackWork
	if err := json.Unmarshal(t.Work, &work); err != nil {
		return Unsent(Failed(ClassUnreadable, 0, ""))
	}
	if work.Place != "" {
		return s.deliverApp(ctx, t, work)
	}
	target := work.URL
	if target == "" {
		own, err := s.o.URLs.Of(t.Organization)
		if err != nil {
			return Unsent(Retry(ClassMissing, 0, slackMissingDelay))
		}
		target = own.Reveal()
	}
	if s.check(target) == nil { // The operator's file or a setting has changed since.
		return Unsent(Retry(ClassMissing, 0, slackMissingDelay))
	}
	body, err := json.Marshal(struct {
		Text   string       `json:"text"`
		Blocks []slackBlock `json:"blocks,omitempty"`
	}{work.Text, work.Blocks})
	if err != nil {
		return Unsent(Failed(ClassUnreadable, 0, ""))
	}
	return slackOutcome(s.o.Poster.Post(ctx, target, http.Header{"Content-Type": {"application/json"}}, body))
}

// slackRefusals maps Slack's plain-text responses. Those of kind Auth mean that the URL itself is no longer valid.
var slackRefusals = map[string]Kind{
	"invalid_payload": Permanent, "invalid_blocks": Permanent, "invalid_blocks_format": Permanent, "invalid_attachments": Permanent,
	"no_text": Permanent, "missing_text_or_fallback_or_attachments": Permanent, "msg_too_long": Permanent, "too_many_attachments": Permanent,
	"user_not_found": Permanent, "channel_not_found": Permanent, "channel_is_archived": Permanent,
	"posting_to_general_channel_denied": Permanent, "team_disabled": Permanent,
	"no_service": Auth, "no_service_id": Auth, "no_team": Auth, "no_active_hooks": Auth,
	"invalid_token": Auth, "token_revoked": Auth, "action_prohibited": Auth,
}

// slackOutcome returns the outcome of Slack's response: its text is more specific than the status.
func slackOutcome(a Answer) Outcome {
	said := strings.TrimSpace(string(a.Body))
	kind, known := slackRefusals[said]
	switch {
	case a.Status == http.StatusOK && (said == "ok" || said == "" || strings.HasPrefix(said, `{"ok":true`)):
		return Delivered(a.Status)
	case known && kind == Auth:
		return Denied(Class(said), a.Status, true)
	case known:
		return Failed(Class(said), a.Status, "")
	case a.Status == http.StatusOK: // Not a response of Slack.
		return Outcome{Kind: Unknown, Class: ClassResponse, Status: a.Status}
	}
	return a.Outcome()
}

// Directory holds a secret per organization in a file of its own, named by the percent-encoded id. The file is read
// for each use, so that replacing it is the rotation.
type Directory string

// Of returns an organization's secret.
func (d Directory) Of(organization string) (secret.Value, error) {
	if d == "" {
		return secret.Value{}, errors.New("no directory of secrets is set")
	}
	name := url.PathEscape(organization)
	if rest, ok := strings.CutPrefix(name, "."); ok {
		name = "%2E" + rest
	}
	return secret.File(string(d) + "/" + name).Read()
}
