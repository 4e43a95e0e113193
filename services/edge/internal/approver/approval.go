package approver

import (
	"regexp"
	"time"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/platform/houseevent"
)

// States of an approval.
const (
	Waiting  = "waiting"
	Approved = "approved"
	Denied   = "denied"
	Expired  = "expired"
)

// ProofLink is what an approval has that a button of a message may give; any other is given on a page.
const ProofLink = "link"

// Approval is an approval of the gateway as its events describe it.
type Approval struct {
	Organization, Ref string
	// Group is the name of the group that decides.
	Group, Proof string
	// Server and Rule may be empty.
	Server, Tool, Rule, RequestedBy string
	// At is when it began to wait.
	At, ExpiresAt time.Time
	State         string
	// DecidedBy is empty unless it is approved or denied.
	DecidedBy string
	ClosedAt  time.Time
	// Checks counts how often the approval was read while overdue and could not be closed. NextCheck is when it is read
	// again; zero for at once.
	Checks    int
	NextCheck time.Time
}

// reference is the form of a reference, which is a part of a path at the gateway.
var reference = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// maxField bounds a field of an approval in bytes, as the gateway does.
const maxField = 256

// Read returns the approval of an event. It reports false for an event of another
// kind, or one that lacks a field of an approval.
func Read(e *alert.Event) (a Approval, ok bool) {
	text := func(name string) string {
		value, _ := e.Data[name].(string)
		return alert.Line(value, maxField)
	}
	a = Approval{
		Organization: e.Organization, Ref: text("ref"), Group: text("approvers"), Proof: text("proof"), Server: text("server_id"),
		Tool: text("tool"), Rule: text("rule"), RequestedBy: text("requested_by"), At: e.RecordedAt,
	}
	if a.Group == "" { // a caller created it
		a.Group = Default
	}
	if !reference.MatchString(a.Ref) || a.Organization == "" || a.Tool == "" {
		return a, false
	}
	switch e.Type {
	case houseevent.ApprovalPending:
		a.State = Waiting
	case houseevent.ApprovalDecided:
		a.State, a.DecidedBy, a.ClosedAt = text("status"), text("decided_by"), e.RecordedAt
		return a, a.State == Approved || a.State == Denied
	case houseevent.ApprovalSuperseded: // Its time is up before it was.
		a.State, a.ClosedAt = Expired, e.RecordedAt
		return a, true
	default:
		return a, false
	}
	expires, _ := e.Data["expires_at"].(string)
	at, err := time.Parse(time.RFC3339, expires)
	a.ExpiresAt = at
	return a, err == nil
}

// States of a notice.
const (
	// Planned is not due, or not prepared.
	Planned = "planned"
	// Prepared has its message sealed, which is sent under one key until notify has it.
	Prepared = "prepared"
	// Sent is with notify.
	Sent = "sent"
	// Closing is sent, and to be updated with what became of the approval.
	Closing = "closing"
	// Closed, Cancelled and Refused are ends: updated, not sent since the approval was closed before, and refused for good
	// by the gateway or notify.
	Closed    = "closed"
	Cancelled = "cancelled"
	Refused   = "refused"
)

// Notice is a message to one member, or to one conversation of Slack, about an approval.
type Notice struct {
	// ID can't be guessed: a button of Slack names the notice by it.
	ID      string
	Step    int
	Channel string
	// User is the member; empty for a conversation, which SlackChannel names.
	User, SlackChannel string
	DueAt              time.Time
	State              string
	// Attempts counts failures since the state was entered.
	Attempts int
	// Sealed is the message of a prepared one.
	Sealed []byte
	// Notification is notify's id of a sent one.
	Notification string

	Approval Approval
}

// Plan returns the notices of an approval that begins to wait. Who asks is left out; the gateway, which knows more of who
// is behind a call, refuses others that may not decide when their notice is prepared.
func Plan(a Approval, g *Group) (notices []Notice) {
	for i := range g.Steps {
		s := &g.Steps[i]
		for _, channel := range s.Channels {
			n := Notice{Step: i, Channel: channel, DueAt: a.At.Add(s.Due()), State: Planned, Approval: a}
			if channel == alert.Slack && s.SlackChannel != "" {
				n.SlackChannel = s.SlackChannel
				notices = append(notices, n)
				continue
			}
			for j := range g.Members {
				m := &g.Members[j]
				if s.names(m) && m.takes(channel) && !sameName(m.User, a.RequestedBy) {
					n.User = m.User
					notices = append(notices, n)
				}
			}
		}
	}
	return notices
}

// After returns the state of a notice once its approval is closed.
func After(n *Notice) string {
	switch n.State {
	case Planned:
		return Cancelled
	case Prepared:
		// Without a failure it may have been sent by a replica that ended before it could say so: it is sent under the same
		// key, which is no second message, and then updated.
		if n.Attempts > 0 {
			return Cancelled
		}
	case Sent:
		return Closing
	}
	return n.State
}

const (
	// maxRetry is the longest wait after a failure, maxCheck the longest one before an overdue approval is read again.
	maxRetry, maxCheck = time.Minute, time.Hour
	// closeTime is how long an update is tried.
	closeTime = 24 * time.Hour
)

// Retry returns the wait after a number of failures in a row.
func Retry(failures int) time.Duration { return alert.Backoff(failures, maxRetry) }

// Recheck returns the wait before an overdue approval is read again, after a number of reads that could not close it.
// If open, it was still open at the gateway, whose clock may be behind; otherwise it could not be read.
func Recheck(times int, open bool) time.Duration {
	if open {
		return alert.Backoff(times, maxRetry)
	}
	return alert.Backoff(times, maxCheck)
}
