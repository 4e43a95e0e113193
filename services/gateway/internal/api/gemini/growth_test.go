package gemini

import (
	"bytes"
	"testing"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/dialect/dialecttest"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/platform/testkit/growth"
)

const hi = `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`

func TestChatGrowsLinearly(t *testing.T) {
	const some = `{"contents":[{"role":"user","parts":[{"text":"a"}]}`
	inputs := []growth.Input{
		growth.Repeat("turns", some, `,{"role":"model","parts":[{"text":"a"}]},{"parts":[{"text":"b"}]}`, "]}"),
		growth.Repeat("parts", `{"contents":[{"parts":[{"text":"a"}`, `,{"text":"a"}`, "]}]}"),
		growth.Repeat("images", `{"contents":[{"parts":[{"text":"a"}`, `,{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo_"}}`, "]}]}"),
		growth.Number("calls and results", some, `,{"role":"model","parts":[{"functionCall":{"id":"c#","name":"f","args":{}},"thoughtSignature":"`+vendor.OwnSignature+`e30="}]},{"parts":[{"functionResponse":{"id":"c#","name":"f","response":{"output":"a"}}}]}`, "]}"),
		growth.Repeat("calls without ids", `{"contents":[{"role":"model","parts":[{"text":"a"}`, `,{"functionCall":{"name":"f","args":{}},"thoughtSignature":"QUJD"}`, "]}]}"),
		growth.Repeat("pairs without ids", some, `,{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"name":"f","response":{"a":1}}}]}`, "]}"),
		growth.Repeat("a signature", `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"},"thoughtSignature":"`+vendor.OwnSignature, "QUJD", `"}]}]}`),
		growth.Number("functions", `{`+hi+`,"tools":[{"functionDeclarations":[{"name":"f"}`, `,{"name":"f#","parameters":{"type":"OBJECT"}}`, "]}]}"),
		growth.Repeat("allowed functions", `{`+hi+`,"tools":[{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"`, `,"f"`, "]}}}"),
		growth.Repeat("hosted tools", `{`+hi+`,"tools":[{"googleSearch":{}}`, `,{"urlContext":{}}`, "]}"),
		growth.Repeat("instructions", `{`+hi+`,"systemInstruction":{"parts":[{"text":"a"}`, `,{"text":"a"}`, "]}}"),
		growth.Repeat("stops", `{`+hi+`,"generationConfig":{"stopSequences":["a"`, `,"a"`, "]}}"),
		growth.Number("settings", `{`+hi+`,"generationConfig":{"topK":1`, `,"x#":1`, "}}"),
	}
	for before, after := range map[string]string{
		`"tools":[{"functionDeclarations":[{"name":"f","parameters":`: "}]}]}", `"generationConfig":{"responseSchema":`: "}}",
		`"systemInstruction":`: "}", `"generationConfig":`: "}", `"toolConfig":`: "}",
	} {
		inputs = append(inputs, growth.Around(`{`+hi+`,`+before, growth.ValidJSON, after)...)
	}
	dialecttest.ChatGrows(t, Dialect{}, hi, inputs...)
}

func TestSchemaGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{
		growth.Number("properties", `{"type":"OBJECT","properties":{"a":{}`, `,"p#":{"type":"STRING","nullable":true}`, "}}"),
		growth.Repeat("alternatives", `{"anyOf":[{}`, `,{"type":"INTEGER","minimum":1}`, "]}"),
		growth.Repeat("an enum", `{"enum":["a"`, `,"a"`, "]}"), growth.Repeat("a long name", `{"`, "x", `":1}`),
	}
	nested := growth.Input{Name: "nested", Unit: 10, Most: 80 << 10, Make: func(n int) []byte {
		return append(append(bytes.Repeat([]byte(`{"items":`), n), "{}"...), bytes.Repeat([]byte("}"), n)...)
	}}
	growth.Linear(t, growth.Each(append(inputs, nested), func(raw []byte) { _, _ = jsonSchema("p", raw) })...)
}

func TestEmbeddingGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{
		growth.Repeat("requests", `{"requests":[{"content":{"parts":[{"text":"a"}]}}`, `,{"content":{"parts":[{"text":"a"}]}}`, "]}"),
		growth.Repeat("parts", `{"content":{"parts":[{"text":"a"}`, `,{"text":"a"}`, "]}}"),
		growth.Number("members", `{"content":{"parts":[{"text":"a"}]}`, `,"x#":1`, "}"),
	}
	growth.Linear(t, growth.Each(append(inputs, growth.JSON...), func(body []byte) {
		_, _ = ReadEmbedding(body, "m")
		_, _ = ReadCount(body, "m")
		_ = WithModel(body, "m")
	})...)
}

// Forwarding a vendor's chunks costs in proportion to their number and size.
func TestRelayGrowsLinearly(t *testing.T) {
	for name, frame := range map[string]string{
		"chunks": `{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"modelVersion":"x"}`, "last chunks": `{"candidates":[{"finishReason":"STOP"}],"modelVersion":"x"}`,
	} {
		growth.Linear(t, growth.Row{Name: name, Top: 1 << 14, Make: func(n int) func() {
			return func() {
				s := writer{}.Stream(dialect.Reply{Model: "m"})
				for range n {
					_ = s.Event(provider.Event{Native: []byte(frame)})
				}
				_ = s.End(provider.FinishStop, ledger.Report{})
			}
		}}, growth.Row{Name: "one of " + name, Make: func(n int) func() {
			large := append(append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), n)...), "\",\n"+frame[1:]...)
			return func() {
				s := writer{}.Stream(dialect.Reply{Model: "m"})
				_ = s.Event(provider.Event{Native: large})
				_ = s.End(provider.FinishStop, ledger.Report{})
			}
		}})
	}
}
