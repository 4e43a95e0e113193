package fault

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Call is one request to a fake: an HTTP request, or for the mail fake an SMTP command (Method) and its address
// (Path).
type Call struct {
	Method string
	Path   string
	Query  string
	Header http.Header
	Body   []byte
	// Truncated reports whether the client sent more than Body holds.
	Truncated bool
}

// Decide returns the action of the first rule that matches the call, and the
// rules that are left after it. It changes none of its arguments.
func Decide(rules []Rule, call Call) (action Action, left []Rule, matched bool) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Match.accepts(call) })
	if i < 0 {
		return Action{}, rules, false
	}
	action = rules[i].Action
	switch rules[i].Times {
	case 0:
		return action, rules, true
	case 1:
		return action, slices.Concat(rules[:i], rules[i+1:]), true
	default:
		left = slices.Clone(rules)
		left[i].Times--
		return action, left, true
	}
}

func (m Match) accepts(call Call) bool {
	if m.Method != "" && !glob(strings.ToUpper(m.Method), call.Method) {
		return false
	}
	if m.Path != "" && !glob(m.Path, call.Path) {
		return false
	}
	for name, pattern := range m.Header {
		fits := func(v string) bool { return glob(pattern, v) }
		if !slices.ContainsFunc(call.Header.Values(name), fits) {
			return false
		}
	}
	return m.Body == "" || strings.Contains(string(call.Body), m.Body)
}

// glob reports whether the whole of s matches a pattern in which each "*" stands for any run of characters, also
// none.
func glob(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	// Taking the leftmost place of each middle part leaves the most room for
	// those after it, so no backtracking is needed.
	for _, part := range parts[1:last] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return strings.HasSuffix(s, parts[last])
}

// Summary returns a few words on what an action does, for logs and call lists. It holds nothing from the script's
// texts.
func (a Action) Summary() string {
	var words []string
	add := func(when bool, word string) {
		if when {
			words = append(words, word)
		}
	}
	add(a.DelayMS > 0, "delay")
	add(a.SlowHeadMS > 0, "slow_head")
	add(a.SlowBodyMS > 0, "slow_body")
	add(a.Informational > 0, "informational")
	add(a.EndlessHeaders, "endless_headers")
	add(a.HalfClose, "half_close")
	add(a.StallAfterChunks != nil, "stall")
	add(a.ErrorAfterChunks != nil, "stream_error")
	add(a.answers(), strconv.Itoa(a.StatusCode()))
	add(a.AfterBytes != nil, "cut")
	add(a.cuts() && !a.Reset, "drop")
	add(a.Reset, "reset")
	add(a.Hostile != "", a.Hostile)
	if len(words) == 0 {
		return "shaped"
	}
	return strings.Join(words, " ")
}
