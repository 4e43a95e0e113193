package channel

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/platform/apierr"
)

// Bounds of actions: their number, a label in characters, a URL and a value in bytes.
const (
	maxActions     = 3
	maxLabel       = 40
	maxActionURL   = 2048
	maxActionValue = 512
)

// actionID is the form of an action's id.
var actionID = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// actionStyles are the styles of a button.
var actionStyles = []string{"", "default", "primary", "danger"}

// checkActions returns the error that names the field and the rule of the first action that breaks one.
func checkActions(actions []inbox.Action) error {
	if len(actions) > maxActions {
		return apierr.Invalid("actions", fmt.Sprintf("must not be more than %d", maxActions))
	}
	seen := make(map[string]bool, len(actions))
	for i, a := range actions {
		field, rule := actionRule(a)
		if rule == "" && seen[a.ID] {
			field, rule = "id", "must differ from those of the other actions"
		}
		if rule != "" {
			return apierr.Invalid(fmt.Sprintf("actions[%d].%s", i, field), rule)
		}
		seen[a.ID] = true
	}
	return nil
}

// actionRule returns the rule that an action breaks, with its field; empty for none.
func actionRule(a inbox.Action) (field, rule string) {
	switch {
	case !actionID.MatchString(a.ID):
		return "id", "must match " + actionID.String()
	case !isLabel(a.Label):
		return "label", fmt.Sprintf("must be one line of 1 to %d printable characters", maxLabel)
	case !slices.Contains(actionStyles, a.Style):
		return "style", "must be default, primary or danger"
	case a.URL != "" && !isActionURL(a.URL):
		return "url", fmt.Sprintf("must be an http or https URL of at most %d bytes, without user information", maxActionURL)
	case len(a.Value) > maxActionValue || strings.ContainsRune(a.Value, 0):
		return "value", fmt.Sprintf("must be at most %d bytes without NUL", maxActionValue)
	}
	return "", ""
}

// isLabel reports whether a text can be a button's label. Characters that only change how others look (control and
// format characters, such as those that turn the direction of text) could make it say something else.
func isLabel(text string) bool {
	n := utf8.RuneCountInString(text)
	return n >= 1 && n <= maxLabel && utf8.ValidString(text) && strings.TrimSpace(text) != "" &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// isActionURL reports whether a click may lead to a URL. It has no characters that a parser might read otherwise.
func isActionURL(raw string) bool {
	if len(raw) > maxActionURL || strings.ContainsFunc(raw, func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`\<>"|`, r)
	}) {
		return false
	}
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Opaque == ""
}
