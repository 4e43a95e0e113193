package channel

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/platform/jsoncheck"
)

// InAppSender is the in_app channel. Storing the record is the delivery.
type InAppSender struct{}

// Channel returns InApp.
func (InAppSender) Channel() Name { return InApp }

// Prepare returns the record for a user, or the notice to the organization.
func (InAppSender) Prepare(_ context.Context, m Message) (Work, error) {
	m = m.Public()
	if rule := CheckLink(m.Target.URL); rule != "" {
		return Work{}, NotAccepted(InApp, "target.url", rule)
	}
	if rule := CheckData(m.Target.Data); rule != "" {
		return Work{}, NotAccepted(InApp, "target.data", rule)
	}
	return Work{Channel: InApp, Record: inbox.Draft{
		Inbox:   inbox.Address{Organization: m.Organization, User: m.Target.User},
		Subject: m.Subject, Message: m.Text, URL: m.Target.URL, Data: m.Target.Data, Actions: m.Actions,
	}, ActionsShown: len(m.Actions)}, nil
}

// CheckLink returns the rule that a link violates, or "". A click opens the link within the caller's own pages, so
// javascript: and similar schemes would run script there; a path stays on the site that shows the record.
func CheckLink(link string) string {
	const rule = "must be an http or https URL, or a path that begins with one slash"
	if link == "" {
		return ""
	}
	if strings.ContainsFunc(link, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == '\\' }) {
		return rule
	}
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return rule
	case u.Scheme == "http" || u.Scheme == "https":
		if u.Hostname() == "" || u.User != nil {
			return rule
		}
		return ""
	case u.Scheme == "" && u.Host == "" && strings.HasPrefix(link, "/") && !strings.HasPrefix(link, "//"):
		return ""
	}
	return rule
}

// CheckData returns the rule that free JSON violates, or "".
func CheckData(data []byte) string {
	switch {
	case len(data) == 0:
		return ""
	case len(data) > inbox.MaxData:
		return fmt.Sprintf("must not be larger than %d bytes", inbox.MaxData)
	}
	return jsoncheck.ObjectRule(data)
}
