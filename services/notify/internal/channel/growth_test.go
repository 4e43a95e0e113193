package channel

import (
	"testing"

	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestLinkGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("/", growth.Text, ""), growth.Around("https://", growth.Text, "/")...)
	growth.Linear(t, growth.EachText(append(inputs, growth.Text...), func(text string) {
		_ = CheckLink(text)
		_ = isAddress(text)
		_ = isAddress(text + "@a.example")
		_ = isAddress("a@" + text)
		_ = checkActions([]inbox.Action{{ID: text, Label: "A"}, {ID: "a", Label: text}})
		_ = checkActions([]inbox.Action{{ID: "a", Label: "A", URL: text, Value: text}})
		_ = isActionURL(text)
	})...)
}

// What receivers answer, and what Slack is sent.
func TestDetailGrowsLinearly(t *testing.T) {
	secrets := []string{"a", "b", "=", "e", "an-ordinary-secret", "redacted", "[", "]"}
	growth.Linear(t, growth.EachText(growth.Text, func(text string) {
		_ = Detail(text, secrets...)
		for _, most := range []int{10, maxSlackText} {
			_, _ = cutSlack(slackText(text, text), most)
		}
		_, _ = slackBlocks(slackText(text, text), []inbox.Action{{ID: "a", Label: "A"}})
		_ = slackAppOutcome(Answer{Status: 200, Body: []byte(text)}, "a-bot-token")
	})...)
	growth.Linear(t, growth.Row{Name: "secrets", Top: 256, Make: func(n int) func() {
		many := make([]string, n)
		for i := range many {
			many[i] = "e"
		}
		return func() { _ = Detail("the receiver repeats what it was sent", many...) }
	}})
}

func TestDataGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`{"a":`, growth.JSON, "}"), growth.JSON...)
	growth.Linear(t, growth.Each(append(inputs, growth.Number("members", `{"a":1`, `,"a#":1`, "}")), func(text []byte) {
		_ = CheckData(text)
		_ = checkPayload(text)
		_, _ = encodeWebhook("https://a.example", text)
	})...)
}
