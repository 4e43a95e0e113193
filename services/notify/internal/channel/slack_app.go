package channel

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"switchyard.dev/services/platform/secret"
)

const (
	// slackPost and slackChange are methods of Slack's Web API.
	slackPost, slackChange = "chat.postMessage", "chat.update"
	// maxSlackChange is the longest text of chat.update, in characters.
	maxSlackChange = 4000
	// maxSlackAnswer is how much of an answer of the Web API is read, in bytes: it repeats the message.
	maxSlackAnswer = 512 << 10
)

// slackNoURL is the URL of works with a Place. A replica of a release that knows no Place would post them to the
// organization's incoming webhook; by this URL, which none is, it leaves them for later.
const slackNoURL = "place:"

// slackPlace is the form of the id of a channel, a conversation or a person.
var slackPlace = regexp.MustCompile(`^[CDGUW][A-Z0-9]{2,20}$`)

// slackPerson matches places that only one person reads: a person (U…, or W… in an Enterprise Grid) or the conversation
// with one (D…).
var slackPerson = regexp.MustCompile(`^[DUW]`)

// slackTS is the form of a message's ts, its id within a channel.
var slackTS = regexp.MustCompile(`^[0-9]{1,16}\.[0-9]{1,12}$`)

// prepareApp returns the work of a message that the organization's app posts.
func (s *SlackSender) prepareApp(m Message) (Work, error) {
	place := m.Target.SlackChannel
	switch {
	case m.Target.WebhookURL != "":
		return Work{}, NotAccepted(Slack, "target.slack_channel", "not together with target.webhook_url")
	case !slackPlace.MatchString(place):
		return Work{}, NotAccepted(Slack, "target.slack_channel", "must match "+slackPlace.String())
	}
	if !slackPerson.MatchString(place) {
		m = m.Public()
	}
	if _, ok := s.token(m.Organization); !ok {
		return Work{}, NotAccepted(Slack, "target.slack_channel", "the organization has no bot token")
	}
	most := maxSlackText
	if m.First() != m.ID {
		most = maxSlackChange
	}
	return slackWork{URL: slackNoURL, Place: place}.of(m, most, slackOrigin(s.o.API), m.Organization+" "+place)
}

// slackOrigin returns scheme and host of a base URL.
func slackOrigin(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	return u.Scheme + "://" + u.Host
}

// token returns the bot token of an organization, and whether it has one that fits into a header.
func (s *SlackSender) token(organization string) (secret.Value, bool) {
	token, err := s.o.Tokens.Of(organization)
	if err != nil {
		return secret.Value{}, false
	}
	text := token.Reveal()
	return token, text != "" && isASCII(text)
}

// slackCall is the body of a method. An empty list of blocks, other than nil, removes those of the earlier message.
type slackCall struct {
	Channel string       `json:"channel"`
	TS      string       `json:"ts,omitempty"`
	Text    string       `json:"text"`
	Blocks  []slackBlock `json:"blocks,omitzero"`
	// Parse is set for chat.update, whose default differs from that of chat.postMessage.
	Parse string `json:"parse,omitempty"`
}

// deliverApp posts a message, or changes the one that an update refers to.
func (s *SlackSender) deliverApp(ctx context.Context, t Task, work slackWork) Outcome {
	token, ok := s.token(t.Organization)
	if !ok {
		return Unsent(Retry(ClassMissing, 0, slackMissingDelay))
	}
	method, call := slackPost, slackCall{Channel: work.Place, Text: work.Text, Blocks: work.Blocks}
	if place, ts, there := strings.Cut(t.Reference, ":"); there {
		method, call.Channel, call.TS, call.Parse = slackChange, place, ts, "none"
		if call.Blocks == nil {
			call.Blocks = []slackBlock{}
		}
	}
	body, err := json.Marshal(call)
	if err != nil {
		return Unsent(Failed(ClassUnreadable, 0, ""))
	}
	answer := s.o.Poster.Reading(maxSlackAnswer).Post(ctx, s.o.API+"/"+method, http.Header{
		"Content-Type": {"application/json; charset=utf-8"}, "Authorization": {"Bearer " + token.Reveal()},
	}, body)
	o := slackAppOutcome(answer, token.Reveal())
	if work.Secret != "" { // The answer may quote the message in any form.
		o.Detail = ""
	}
	o.Replaced = o.Kind == OK && method == slackChange
	if o.Replaced {
		o.Reference = "" // It is where it was.
	}
	return o
}

// slackAnswer is the answer of a method.
type slackAnswer struct {
	OK      bool   `json:"ok"`
	Error   string `json:"error"`
	Channel string `json:"channel"`
	TS      string `json:"ts"`
}

// slackAppRefusals maps the errors of chat.postMessage and chat.update that a further attempt does not change to
// Permanent, those of the token, which an operator can replace, to Auth, those that pass to RetryAfter, and those after
// which the message may be there to Unknown.
var slackAppRefusals = map[string]Kind{
	"channel_not_found": Permanent, "not_in_channel": Permanent, "is_archived": Permanent, "is_inactive": Permanent,
	"messages_tab_disabled": Permanent, "restricted_action": Permanent, "restricted_action_read_only_channel": Permanent,
	"restricted_action_thread_only_channel": Permanent, "team_not_found": Permanent, "enterprise_is_restricted": Permanent,
	"no_text": Permanent, "msg_too_long": Permanent, "msg_blocks_too_long": Permanent, "invalid_blocks": Permanent,
	"invalid_blocks_format": Permanent, "block_mismatch": Permanent, "invalid_arguments": Permanent,
	"message_not_found": Permanent, "cant_update_message": Permanent, "edit_window_closed": Permanent,

	"not_authed": Auth, "invalid_auth": Auth, "account_inactive": Auth, "token_revoked": Auth, "token_expired": Auth,
	"missing_scope": Auth, "no_permission": Auth, "not_allowed_token_type": Auth, "access_denied": Auth, "accesslimited": Auth,
	"ekm_access_denied": Auth, "two_factor_setup_required": Auth,

	"service_unavailable": RetryAfter, "request_timeout": RetryAfter, "team_added_to_org": RetryAfter,
	"org_login_required": RetryAfter, "external_channel_migrating": RetryAfter, "streaming_state_conflict": RetryAfter,
	"update_failed": RetryAfter,

	"fatal_error": Unknown, "internal_error": Unknown,
}

// classSlack is the class of an error of Slack that this release does not know.
const classSlack Class = "slack_refused"

// slackAppOutcome returns the outcome of an answer of the Web API. The answer may repeat the token; the outcome doesn't.
// Errors come with status 200, except for rate limits.
func slackAppOutcome(a Answer, token string) Outcome {
	var said slackAnswer
	err := json.Unmarshal(a.Body, &said)
	switch {
	case a.Status == http.StatusOK && err == nil && said.OK:
		o := Delivered(a.Status)
		if slackPlace.MatchString(said.Channel) && slackTS.MatchString(said.TS) {
			o.Reference = said.Channel + ":" + said.TS
		}
		return o
	case a.Status == http.StatusOK && (err != nil || said.Error == ""): // Not an answer of Slack.
		return Outcome{Kind: Unknown, Class: ClassResponse, Status: a.Status}
	case a.Status != http.StatusOK:
		return a.Outcome()
	}
	switch said.Error {
	case "ratelimited", "rate_limited", "message_limit_exceeded":
		return Retry(ClassRate, a.Status, a.After)
	}
	kind, known := slackAppRefusals[said.Error]
	class := Class(said.Error)
	switch {
	case !known:
		return Failed(classSlack, a.Status, Detail(said.Error, token))
	case kind == Auth:
		o := Denied(class, a.Status, false)
		o.After = slackMissingDelay
		return o
	case kind == RetryAfter:
		return Retry(class, a.Status, a.After)
	case kind == Unknown:
		return Outcome{Kind: Unknown, Class: class, Status: a.Status}
	}
	return Failed(class, a.Status, "")
}
