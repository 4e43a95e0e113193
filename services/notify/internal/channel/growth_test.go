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
	})...)
}

func TestActionsGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("https://", growth.Text, "/"), growth.Text...)
	growth.Linear(t, growth.EachText(inputs, func(text string) {
		_ = checkActions([]inbox.Action{{ID: text, Label: "A"}})
		_ = checkActions([]inbox.Action{{ID: "a", Label: text}})
		_ = checkActions([]inbox.Action{{ID: "a", Label: "A", URL: text, Value: text}})
		_ = isActionURL(text)
	})...)
}

func TestSlackBlocksGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) {
		whole := slackText(text, text)
		_, _ = cutSlack(whole, 10)
		_, _ = cutSlack(whole, maxSlackText)
		_, _ = slackBlocks(whole, []inbox.Action{{ID: "a", Label: "A"}})
	})...)
}

// What Slack's Web API answers.
func TestSlackAnswerGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`{"ok":false,"error":"`, growth.Text, `"}`), growth.Text...)
	growth.Linear(t, growth.EachText(inputs, func(text string) {
		_ = slackAppOutcome(Answer{Status: 200, Body: []byte(text)}, "a-bot-token")
	})...)
}

// What receivers answer.
func TestDetailGrowsLinearly(t *testing.T) {
	secrets := []string{"a", "b", "=", "e", "an-ordinary-secret", "redacted", "[", "]"}
	growth.Linear(t, growth.EachText(growth.Text, func(text string) {
		_ = Detail(text, secrets...)
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
