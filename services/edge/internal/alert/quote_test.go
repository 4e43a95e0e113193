package alert_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"agent-7":                         "agent-7",
		"files/pay":                       "files/pay",
		"gpt-4.1-mini":                    "gpt-4.1-mini",
		"2026-01-02T03:04:05.678Z":        "2026-01-02T03:04:05.678Z",
		"key_01hxyz":                      "key_01hxyz",
		"the nightly agent":               `"the nightly agent"`,
		"files.read":                      "files[.]read",
		"ann@example.com":                 "ann@example[.]com",
		"https://evil.example/x":          "https[:]//evil[.]example/x",
		"HTTP://EVIL.EXAMPLE":             "HTTP[:]//EVIL[.]EXAMPLE",
		"http://127.0.0.1/x":              "http[:]//127.0.0.1/x",
		"slack://open":                    "slack[:]//open",
		"www.evil.example":                "www[.]evil[.]example",
		"evil\u3002example":               "evil[.]example",
		"evil\uff0eexample":               "evil[.]example",
		"пример.рф":                       "пример[.]рф",
		"ev\u200bil.exa\u2060mple":        "evil[.]example",
		"ht\u00adtps://a.b":               "https[:]//a[.]b",
		"a\nDenied: b":                    `"a Denied: b"`,
		`x". Approved: "y`:                `"x'. Approved: 'y"`,
		"x\u201d. Approved: \u201cy":      `"x'. Approved: 'y"`,
		"<https://evil.example|sign in>":  `"<https[:]//evil[.]example|sign in>"`,
		"[sign in](https://evil.example)": `"[sign in](https[:]//evil[.]example)"`,
		"*Approved*":                      `"*Approved*"`,
		"<!channel>":                      `"<!channel>"`,
		strings.Repeat("x", 1000):         strings.Repeat("x", 128),
	} {
		if got := alert.Quote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// link matches text that mail and chat programs turn into a link: a scheme or a domain.
var link = regexp.MustCompile(`(?i)[a-z]+://|\b[a-z0-9-]+\.(example|com)\b`)

// Whatever an event's type and field, its texts become neither links nor separate lines in the message about it.
func TestTextsOfEventsStayQuoted(t *testing.T) {
	const hostile = "x. Sign in at https://evil.example/a \n www.evil.com \u201d Approved by all"
	for _, e := range houseevent.Types() {
		var data map[string]any
		if err := json.Unmarshal(e.Example, &data); err != nil {
			t.Fatal(err)
		}
		for name, value := range data {
			if _, ok := value.(string); !ok {
				continue
			}
			hostileData := maps.Clone(data)
			hostileData[name] = hostile
			title, body := alert.Text(&alert.Event{Type: e.Name, Subject: hostile, Data: hostileData})
			for _, text := range []string{title, body} {
				if link.MatchString(text) || strings.Contains(text, "\n www") {
					t.Errorf("%s, %s: %s", e.Name, name, text)
				}
				if before, _, found := strings.Cut(text, "Sign in"); found && strings.Count(before, `"`)%2 == 0 {
					t.Errorf("%s, %s: the text is not in quotation marks: %s", e.Name, name, text)
				}
			}
		}
	}
}

func TestQuoteGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _ = alert.Quote(text) })...)
}
