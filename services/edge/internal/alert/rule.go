package alert

import (
	"encoding/json"
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// The bounds of an organization's rules.
const (
	MaxRules   = 50
	MaxTypes   = 20 // of a rule
	MaxFields  = 10 // of a rule's conditions
	MaxTargets = 10 // of a rule
	// Texts, in bytes: names of rules, values and addresses, users, and URLs.
	MaxName = 100
	MaxText = 256
	MaxUser = 128
	MaxURL  = 2048
	// MaxRepeat is the longest time for which a rule stays quiet about a subject.
	MaxRepeat = 30 * 24 * time.Hour
)

// Channels of notify.
const (
	InApp   = "in_app"
	Slack   = "slack"
	Email   = "email"
	WebPush = "web_push"
	Webhook = "webhook"
)

// Rule says who is notified of which events.
type Rule struct {
	// Name is unique among the rules of an organization.
	Name string `json:"name"`
	// Types are event types, or beginnings of them followed by `.*`.
	Types []string `json:"types"`
	// Where are fields of the event's data and the values that they must have: texts, numbers or booleans.
	Where map[string]any `json:"where,omitempty"`
	To    []Target       `json:"to"`
	// RepeatAfter is how long the rule stays quiet after a notice of a type and a subject, as time.ParseDuration reads
	// it; empty for not at all.
	RepeatAfter string `json:"repeat_after,omitempty"`
	// Enabled is true if it is absent.
	Enabled *bool `json:"enabled,omitempty"`
}

// Target is a channel of notify with its recipient.
type Target struct {
	Channel string `json:"channel"`
	// User is the recipient of in_app, where no one is everyone of the organization, and of web_push.
	User string `json:"user_id,omitempty"`
	// Broadcast is for web_push: every device of the organization.
	Broadcast bool   `json:"broadcast,omitempty"`
	Email     string `json:"email,omitempty"`
	// URL is the target of a webhook.
	URL string `json:"url,omitempty"`
}

// On reports whether a rule is applied.
func (r *Rule) On() bool { return r.Enabled == nil || *r.Enabled }

// Quiet returns how long the rule stays quiet about a subject.
func (r *Rule) Quiet() time.Duration {
	quiet, _ := time.ParseDuration(r.RepeatAfter) // It is checked when it is set.
	return quiet
}

// TypePattern is matched by types of events and by beginnings of some followed by `.*`, FieldPattern by names of fields of
// their data. Both are regular expressions of RE2 and of ECMA-262.
const (
	TypePattern  = `^switchyard(\.\*|(\.[a-z0-9_]{1,64}){1,4}(\.\*)?)$`
	FieldPattern = `^[a-z][a-z0-9_]{0,63}$`
)

var eventType, fieldName = regexp.MustCompile(TypePattern), regexp.MustCompile(FieldPattern)

// Check refuses rules that are out of bounds or have no meaning. The error names the field and the rule, and repeats no
// value.
func Check(rules []Rule) error {
	if len(rules) > MaxRules {
		return apierr.Invalid("rules", fmt.Sprintf("must be at most %d", MaxRules))
	}
	names := make(map[string]bool, len(rules))
	for i := range rules {
		r, at := &rules[i], fmt.Sprintf("rules[%d].", i)
		switch {
		case !IsText(r.Name, MaxName) || r.Name == "":
			return apierr.Invalid(at+"name", fmt.Sprintf("must be a text of one line, from 1 to %d bytes", MaxName))
		case names[r.Name]:
			return apierr.Invalid(at+"name", "is the name of another rule")
		}
		names[r.Name] = true
		if err := r.check(at); err != nil {
			return err
		}
	}
	return nil
}

// check checks all but the name; at is the path of the rule.
func (r *Rule) check(at string) error {
	if len(r.Types) < 1 || len(r.Types) > MaxTypes {
		return apierr.Invalid(at+"types", fmt.Sprintf("must be 1 to %d", MaxTypes))
	}
	for i, t := range r.Types {
		if !eventType.MatchString(t) {
			return apierr.Invalid(fmt.Sprintf("%stypes[%d]", at, i), "must be a type such as switchyard.budget.threshold, or the beginning of one and .*")
		}
	}
	if err := checkWhere(at, r.Where); err != nil {
		return err
	}
	if r.RepeatAfter != "" {
		if quiet, err := time.ParseDuration(r.RepeatAfter); err != nil || quiet < 0 || quiet > MaxRepeat {
			return apierr.Invalid(at+"repeat_after", "must be a duration from 0s to 720h, such as 1h30m")
		}
	}
	if len(r.To) < 1 || len(r.To) > MaxTargets {
		return apierr.Invalid(at+"to", fmt.Sprintf("must be 1 to %d targets", MaxTargets))
	}
	for i, target := range r.To {
		if err := target.check(fmt.Sprintf("%sto[%d].", at, i)); err != nil {
			return err
		}
	}
	return nil
}

func checkWhere(at string, where map[string]any) error {
	if len(where) > MaxFields {
		return apierr.Invalid(at+"where", fmt.Sprintf("must have at most %d fields", MaxFields))
	}
	for name, value := range where {
		if !fieldName.MatchString(name) {
			return apierr.Invalid(at+"where", "has a name that cannot be a field of an event: use lower-case letters, digits and _")
		}
		switch v := value.(type) {
		case string:
			if IsText(v, MaxText) {
				continue
			}
		case float64, bool:
			continue
		}
		return apierr.Invalid(at+"where."+name, fmt.Sprintf("must be a text of at most %d bytes, a number or a boolean", MaxText))
	}
	return nil
}

// check refuses a target without what its channel needs, or with fields of another channel.
func (t Target) check(at string) error {
	want := Target{Channel: t.Channel}
	switch t.Channel {
	case InApp:
		want.User = t.User
	case Slack: // To the organization's own webhook, which notify keeps: rules hold no secret.
	case Email:
		if want.Email = t.Email; !IsEmail(t.Email) {
			return apierr.Invalid(at+"email", "must be an address of at most 256 bytes")
		}
	case WebPush:
		if want.User, want.Broadcast = t.User, t.Broadcast; (t.User != "") == t.Broadcast {
			return apierr.Invalid(at+"user_id", "must be given for web_push, or else broadcast must be true, but not both")
		}
	case Webhook:
		want.URL = t.URL
		if !IsText(t.URL, MaxURL) || !strings.HasPrefix(t.URL, "https://") && !strings.HasPrefix(t.URL, "http://") {
			return apierr.Invalid(at+"url", "must be an http or https URL of at most 2048 bytes")
		}
	default:
		return apierr.Invalid(at+"channel", "must be in_app, slack, email, web_push or webhook")
	}
	if t != want {
		return apierr.Invalid(strings.TrimSuffix(at, "."), "has a field that its channel does not take")
	}
	if !IsText(t.User, MaxUser) {
		return apierr.Invalid(at+"user_id", fmt.Sprintf("must be a text of one line, at most %d bytes", MaxUser))
	}
	return nil
}

// IsEmail reports whether text is an address of e-mail without a name, of at most MaxText bytes.
func IsEmail(text string) bool {
	address, err := mail.ParseAddress(text)
	return IsText(text, MaxText) && err == nil && address.Address == text
}

// IsText reports whether s is of at most limit bytes without control characters.
func IsText(s string, limit int) bool {
	return len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' })
}

// Matches reports whether a rule selects an event of a type with this data.
func (r *Rule) Matches(eventType string, data map[string]any) bool {
	if !r.On() || !slices.ContainsFunc(r.Types, func(pattern string) bool { return selects(pattern, eventType) }) {
		return false
	}
	for name, want := range r.Where {
		if got, ok := data[name]; !ok || got != want {
			return false
		}
	}
	return true
}

func selects(pattern, eventType string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return open && strings.HasPrefix(eventType, prefix) || pattern == eventType
}

// Decode reads stored rules.
func Decode(text []byte) (rules []Rule, err error) {
	if err := json.Unmarshal(text, &rules); err != nil {
		return nil, fmt.Errorf("alert rules: %w", err)
	}
	return rules, nil
}
