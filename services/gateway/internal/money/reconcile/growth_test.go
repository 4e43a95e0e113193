package reconcile

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestParseCSVGrowsLinearly(t *testing.T) {
	const head = "provider,model,amount_cents\n"
	inputs := append(growth.Around(head, growth.Text, "\n"), growth.Text...)
	inputs = append(inputs,
		growth.Number("lines", head, "openai,m#,12.50\n", ""), growth.Repeat("equal lines", head, "openai,gpt-5,12.50\n", ""),
		growth.Repeat("quotes", head+`"`, `""`, "\",b,1\n"), growth.Repeat("digits", head+"a,b,", "9", "\n"), growth.Repeat("decimals", head+"a,b,0.", "9", "\n"),
		growth.Repeat("an open quote", head+`"`, "a\n", ""), growth.Number("columns", "provider", ",c#", ",model,amount_cents\n"),
	)
	growth.Linear(t, growth.EachText(inputs, func(text string) { _, _ = ParseCSV(text) })...)
}
