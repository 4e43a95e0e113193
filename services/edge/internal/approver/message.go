package approver

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/decision"
)

// Decisions, which are also the ids of the buttons that make them.
const (
	Approve = decision.Approve
	Deny    = decision.Deny
	// Open is the id of the button that leads to the page.
	Open = "open"
)

// Message is what notify is asked to send to one recipient by one channel.
type Message struct {
	Channel  string
	Subject  string
	Body     string
	User     string // in_app, web_push
	Email    string
	Slack    string // conversation or user
	URL      string // what a click opens; in_app, web_push
	Topic    string // web_push: a later message of the same topic replaces it
	TTL      int    // web_push: seconds
	Decide   *Decide
	Buttons  []Button
	Secret   string // the token; notify puts it in place of secretPlace in URLs, only for the member
	Repeated string // the key that makes a repeat none
}

// secretPlace is the placeholder for the token in the URLs of a message.
const secretPlace = "{secret}"

// Decide is how a service worker decides by a button of a push, see the portal's documentation.
type Decide struct {
	// URL takes the decision; Version is of what is shown. Proof is page if Approve needs the page.
	Ref, URL, Version, Proof string
}

// Button is a button of a message: a link, or in Slack a value that comes back with the click.
type Button struct{ ID, Label, Style, URL, Value string }

// Facts are what a message needs besides the notice.
type Facts struct {
	// Member is nil for a conversation of Slack, and Token empty.
	Member *Member
	Token  string
	// Version is of what the token shows.
	Version string
	// Cents is the price of the call.
	Cents float64
	// Public is the scheme and host at which members reach the page.
	Public *url.URL
	Now    time.Time
}

// Ask returns the message of a notice. It holds no arguments of the call, and the token only in Secret.
func Ask(n *Notice, f Facts) Message {
	a := &n.Approval
	m := Message{
		Channel: n.Channel, Subject: alert.Line("Approval needed: "+a.name(), maxSubject), Body: body(a, f.Cents), Repeated: "approval-" + n.ID,
	}
	if f.Member == nil {
		m.Slack, m.Buttons = n.SlackChannel, conversationButtons(n)
		if a.Proof != ProofLink {
			m.Body += "\nTo approve, members use their own link or the console: it takes a look at the page."
		}
		return m
	}
	page, own := f.Public.JoinPath("/decisions/").String()+secretPlace, f.Public.JoinPath(decision.OwnPath, a.Ref, "/").String()
	switch n.Channel {
	case alert.Email:
		m.Email, m.Secret, m.Buttons = f.Member.Email, f.Token, memberButtons(n, page)
	case alert.Slack:
		m.Slack, m.Secret, m.Buttons = f.Member.Slack.User, f.Token, memberButtons(n, page)
	case alert.WebPush:
		// A device that doesn't get the token opens the page that asks who decides.
		m.User, m.URL, m.Secret, m.Buttons = f.Member.User, own+secretPlace, f.Token, memberButtons(n, own+secretPlace)
		m.Topic, m.TTL = topic(a), int(max(a.ExpiresAt.Sub(f.Now), 0)/time.Second)
		m.Decide = &Decide{Ref: a.Ref, URL: f.Public.JoinPath("/v1/decisions/").String() + secretPlace, Version: f.Version, Proof: a.Proof}
	default: // Keys and operators read a member's inbox, too, so the record has no token.
		m.User, m.URL, m.Buttons = f.Member.User, own, memberButtons(n, own)
	}
	return m
}

// Result returns the message that replaces the one of a notice when its approval is closed.
func Result(n *Notice) Message {
	a := &n.Approval
	outcome := a.State
	if a.DecidedBy != "" {
		outcome += " by " + alert.Quote(a.DecidedBy)
	}
	subject := strings.ToUpper(a.State[:1]) + a.State[1:] + ": " + a.name()
	return Message{
		Channel: n.Channel, Subject: alert.Line(subject, maxSubject),
		Body: strings.Join(append([]string{"This call is " + outcome + "."}, a.lines()...), "\n"), Repeated: "approval-" + n.ID + "-closed",
	}
}

const maxSubject = 200

// conversationButtons returns the buttons of a message in a conversation, which has no link: a link is one member's.
func conversationButtons(n *Notice) []Button {
	deny := Button{ID: Deny, Label: "Deny", Style: "danger", Value: n.ID}
	if n.Approval.Proof != ProofLink {
		return []Button{deny}
	}
	return []Button{{ID: Approve, Label: "Approve", Style: "primary", Value: n.ID}, deny}
}

// memberButtons returns the buttons of a message to one member. Where the page is required none of them approves. The links
// of all lead to the page, which decides nothing by being opened.
func memberButtons(n *Notice, page string) []Button {
	open := Button{ID: Open, Label: "Open", Style: "primary", URL: page}
	link := n.Approval.Proof == ProofLink
	switch n.Channel {
	case alert.Slack:
		buttons := conversationButtons(n)
		if link {
			open.Style = ""
		}
		return append(buttons, open)
	case alert.WebPush: // A browser shows two.
		deny := Button{ID: Deny, Label: "Deny", Style: "danger", URL: page}
		if link {
			return []Button{{ID: Approve, Label: "Approve", Style: "primary", URL: page}, deny}
		}
		return []Button{open, deny}
	}
	return []Button{open}
}

// body says who asks for what, at which price, and until when. Each text that others wrote has a label.
func body(a *Approval, cents float64) string {
	lines := a.lines()
	if cents > 0 {
		lines = append(lines, "Price: "+decision.Cents(cents))
	}
	if a.Rule != "" {
		lines = append(lines, "Rule: "+alert.Quote(a.Rule))
	}
	return strings.Join(append(lines, "Expires at: "+decision.When(a.ExpiresAt)), "\n")
}

// lines returns the lines that name who asks, and the tool.
func (a *Approval) lines() []string {
	asker := alert.Quote(a.RequestedBy)
	if asker == "" {
		asker = "an agent"
	}
	return []string{"Asked for by: " + asker, "Tool: " + a.name()}
}

// name returns the server and the tool, quoted.
func (a *Approval) name() string {
	if a.Server == "" {
		return alert.Quote(a.Tool)
	}
	return alert.Quote(a.Server + "/" + a.Tool)
}

// topic names the approval to push services, which take 32 characters.
func topic(a *Approval) string {
	sum := sha256.Sum256([]byte(a.Organization + "\x00" + a.Ref))
	return hex.EncodeToString(sum[:16])
}

// sameName reports whether two names are equal but for case and space around them. It saves a message to who asks; the
// gateway refuses decisions on the own call.
func sameName(a, b string) bool { return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b)) }
