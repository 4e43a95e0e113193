package redact_test

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/platform/testkit/growth"
)

// findings are runs of text that detectors look at, and of text that they nearly match.
var findings = []string{
	"a@b.c ", "ada@example.com,", "@", "a.a.", "a@a", "4111 1111 1111 1111 ", "4111-", "1 ", "1.1.1.1", "1.", "DE89 3704 0044 0532 0130 00 ", "DE89 ", "D0",
	"+49 171 1234567 ", "+1", "(1) ", "00", "sk-abcdefghijklmnop1 ", "sk-", "Bearer ", "Authorization: ", "::1 ", "a:", "1:", "fe80::", "-----BEGIN ",
	"-----BEGIN PRIVATE KEY-----", "-----BEGIN A-----\n-----END B-----\n", "data:", "data:a;base64,AAAA", "{", "[", `"`, `\"`, "aB1", "key=", "AKIA",
}

func TestJSONGrowsLinearly(t *testing.T) {
	var texts []growth.Input
	for _, finding := range findings {
		texts = append(texts, growth.Repeat(finding, "", finding, ""))
	}
	texts = append(texts, growth.Text...)
	inputs := append(growth.Around(`{"a":`, growth.JSON, "}"), growth.Nest("JSON in strings", `[`, `"{}"`, `]`))
	inputs = append(inputs, growth.Input{Name: "JSON in JSON", Unit: 1 << 10, Make: inStrings})
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		_ = new(redact.Redactor).JSON(text, redact.Kinds{})
		_ = redact.Tokens(text, redact.Kinds{})
		_ = redact.Credentials(text)
	})...)
	growth.Linear(t, growth.EachText(texts, func(text string) { _ = new(redact.Redactor).Text(text, redact.Kinds{}) })...)
	growth.Linear(t, growth.Each([]growth.Input{
		growth.Repeat("tokens", `{"input":[0`, ",1", "]}"), growth.Repeat("lists of tokens", `{"input":[[0]`, ",[1]", "]}"), growth.Repeat("tokens twice", `{"input":[0]`, `,"input":[1]`, "}"),
	}, func(text []byte) { _ = redact.Tokens(text, redact.Kinds{}) })...)
}

// inStrings returns an array of n strings that each hold JSON in JSON.
func inStrings(n int) []byte {
	inner := `{"a":"` + strings.Repeat("b", 900) + `"}`
	for range 3 {
		inner = `{"a":"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(inner) + `"}`
	}
	return []byte("[" + strings.Repeat(inner+",", n) + "1]")
}
