package api_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func requestText(r *http.Request) string {
	text, _ := io.ReadAll(r.Body)
	return string(text)
}

// names reports whether the answer names a setting as ignored, under the name that the face has for it.
func (e *exchange) names(setting string) bool {
	contract := map[string]map[string]string{
		"top_p":       {"gemini": "generationConfig.topP"},
		"temperature": {"gemini": "generationConfig.temperature"},
		"stop":        {"gemini": "generationConfig.stopSequences", "anthropic": "stop_sequences"},
	}
	if setting == "reasoning" && e.relayed && slices.Contains(e.ignored(), "output_config.effort") {
		return true // Claude's form is named by its own field.
	}
	return slices.Contains(e.ignored(), or(contract[setting][e.face], setting))
}

// Sampling settings reach the models that accept them. For other models the answer names them as ignored.
func TestLimitsOfSampling(t *testing.T) {
	b := limitsBench(t)
	eachLimit(t, b, question{temperature: "0.3", topP: "0.5"}, func(e *exchange) {
		temperature := strings.Contains(e.sent, `"temperature":0.3`)
		topP := strings.Contains(e.sent, `"top_p":0.5`) || strings.Contains(e.sent, `"topP":0.5`)
		none := e.is("claude-sonnet-5", "opus-4-7", "o4-mini", "search-preview") || e.model == "gpt-5"
		one := e.is("sonnet-4-5", "opus-4-1")
		if e.status != 200 || temperature == none || topP != (!none && !one) || e.names("temperature") != none || e.names("top_p") != (none || one) {
			e.t.Errorf("temperature %v, top_p %v", temperature, topP)
		}
	})
}

// Blank stop sequences, texts and prefills don't reach a vendor that refuses them.
func TestLimitsOfBlanks(t *testing.T) {
	b := limitsBench(t)
	eachLimit(t, b, question{stop: `["\n"]`, system: " "}, func(e *exchange) {
		stopped := strings.Contains(e.sent, `["\n"]`)
		if want := e.is("gpt-4o", "gpt-5-chat", "nova", "magistral"); e.status != 200 || stopped != want || e.names("stop") == want {
			e.t.Errorf("stop is sent: %v, want %v", stopped, want)
		}
		if e.claude() && (strings.Contains(e.sent, `"text":" "`) || e.has("system")) {
			e.t.Error("a blank instruction is sent")
		}
	})
	eachLimit(t, b, question{prefill: `answer: `}, func(e *exchange) {
		switch {
		case e.is("claude-sonnet-5", "opus-4-7"):
			if e.status != 400 || e.sent != "" {
				e.t.Error("want a refusal: the model continues no answers")
			}
		case e.status != 200 || e.claude() && !strings.Contains(e.sent, `"answer:"`):
			e.t.Error("want the answer to be continued without the blank at its end")
		}
	})
}

// No vendor gets an empty conversation, or the beginning of an answer that the caller didn't ask to be continued,
// because blank texts were left out.
func TestLimitsOfBlankTurns(t *testing.T) {
	b := limitsBench(t)
	apart := func(e *exchange) bool { return e.claude() || e.dialect == "bedrock" }
	for name, q := range map[string]question{
		"nothing":      {user: " "},
		"a blank last": {prefill: "The answer is ", last: " "},
	} {
		t.Run(name, func(t *testing.T) {
			eachLimit(t, b, q, func(e *exchange) {
				if refused := e.status == 400 && e.sent == ""; refused != apart(e) || !refused && e.status != 200 {
					e.t.Errorf("refused: %v, want %v", refused, apart(e))
				}
			})
		})
	}
	eachLimit(t, b, question{system: "Say hi", user: " "}, func(e *exchange) {
		asked := strings.Contains(gjson.Get(e.sent, "messages").Raw, "Say hi")
		if e.status != 200 || !strings.Contains(e.sent, "Say hi") || apart(e) && (!asked || e.has("system")) {
			e.t.Error("want the instruction as the user's turn")
		}
	})
}

// A conversation of only instructions is sent to every vendor, as the user's turn where the vendor needs one.
func TestLimitsOfInstructionsAlone(t *testing.T) {
	b := limitsBench(t)
	for path, said := range map[string]string{
		chatPath: `"messages":[{"role":"system","content":"Say hi"}]`, completions: `"messages":[{"role":"developer","content":"Say hi"}]`,
		responsesPath: `"store":false,"input":[{"role":"developer","content":"Say hi"}]`,
	} {
		for name, h := range limited {
			sent := b.sentFor(t, path, `{"model":"`+name+"/"+h.models[0]+`",`+said+`}`)
			if turns := gjson.Get(sent, "messages").Raw + gjson.Get(sent, "contents").Raw + gjson.Get(sent, "input").Raw; !strings.Contains(turns, "Say hi") {
				t.Errorf("%s at %s: sent %s", path, name, sent)
			}
		}
	}
}

// The system prompt of a vendor that has one apart from the conversation gets no images. The contract has none there.
func TestLimitsOfImagesInInstructions(t *testing.T) {
	b := limitsBench(t)
	const image = "data:image/png;base64," + picture
	for path, said := range map[string]string{
		completions:   `"messages":[{"role":"system","content":"Be brief"},{"role":"developer","content":[{"type":"image_url","image_url":{"url":"` + image + `"}}]},{"role":"user","content":"u"}]`,
		responsesPath: `"store":false,"instructions":"Be brief","input":[{"role":"developer","content":[{"type":"input_image","image_url":"` + image + `"}]},{"role":"user","content":"u"}]`,
	} {
		for name, h := range limited {
			sent := b.sentFor(t, path, `{"model":"`+name+"/"+h.models[0]+`",`+said+`}`)
			prompt := gjson.Get(sent, "system").Raw + gjson.Get(sent, "systemInstruction").Raw + gjson.Get(sent, "instructions").Raw
			turns := gjson.Get(sent, "messages").Raw + gjson.Get(sent, "contents").Raw + gjson.Get(sent, "input").Raw
			if !strings.Contains(prompt+turns, "Be brief") || strings.Contains(prompt, picture) || !strings.Contains(turns, picture) {
				t.Errorf("%s at %s: sent %s", path, name, sent)
			}
		}
	}
}

// A function's name is sent in a form that the vendor accepts, the same everywhere in the request, and the answer has
// the caller's name.
func TestLimitsOfNames(t *testing.T) {
	b := limitsBench(t)
	taken := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]*$`)
	for _, name := range []string{"mcp__io-github-example-google-workspace-mcp__batch_modify_gmail_message_labels", "devserver.stop"} {
		eachLimit(t, b, question{tool: name, called: true, forced: true, parameters: `{}`}, func(e *exchange) {
			longest, dots := 64, e.is("gemini")
			if e.claude() && e.dialect != "bedrock" {
				longest = 128
			}
			found := sentName.FindStringSubmatch(e.sent)
			if found == nil || len(found[1]) > longest || !taken.MatchString(found[1]) && !dots {
				e.t.Fatalf("the function is %q", found)
			}
			if n := strings.Count(e.sent, `"`+found[1]+`"`); n < 3 || found[1] != name && strings.Contains(e.sent, name) {
				e.t.Errorf("%q is sent %d times", found[1], n)
			}
			if e.status != 200 || !strings.Contains(e.body, `"`+name+`"`) || found[1] != name && strings.Contains(e.body, found[1]) {
				e.t.Error("want the caller's name in the call")
			}
			if own := e.relayed && e.is("gemini"); !own && !strings.Contains(e.sent, `"type":"object"`) { // Google takes its own form without.
				e.t.Error("want a schema with its type")
			}
		})
	}
}

// Results are sent directly after their calls, and the notice after the results. Google accepts parts of its native form
// in any order.
func TestLimitsOfOrder(t *testing.T) {
	b := limitsBench(t)
	eachLimit(t, b, question{tool: "f", called: true}, func(e *exchange) {
		if e.relayed && e.is("gemini") {
			return
		}
		result, notice := strings.Index(e.sent, `result"`), strings.Index(e.sent, "notice")
		system := notice >= 0 && gjson.Get(e.sent, "system").Index < notice && strings.Contains(gjson.Get(e.sent, "system").Raw+gjson.Get(e.sent, "systemInstruction").Raw, "notice")
		if e.status != 200 || result < 0 || notice < 0 || result > notice && !system {
			e.t.Errorf("the result is at %d, the notice at %d", result, notice)
		}
	})
}

// A server with Mistral's validator gets the assistant's turn between a result and what the user says next, and no
// instruction behind a result, whichever face the conversation comes from.
func TestLimitsOfOrderAtMistral(t *testing.T) {
	eachLimit(t, limitsBench(t), question{tool: "f", called: true, last: "go on"}, func(e *exchange) {
		var roles []string
		for _, role := range gjson.Get(e.sent, "messages.#.role").Array() {
			roles = append(roles, role.Str)
		}
		if order := strings.Join(roles, " "); e.host == "mistral" && order != "user assistant tool assistant user user" {
			e.t.Errorf("sent %s", order)
		}
	})
}

// A text document is sent in a form that the vendor reads. A document that it can't read is refused before anything is
// sent.
func TestLimitsOfDocuments(t *testing.T) {
	b := limitsBench(t)
	data := base64.StdEncoding.EncodeToString([]byte("a,b\n1,2"))
	for _, kind := range []string{"text/plain", "text/csv", "text/markdown", "application/json"} {
		eachLimit(t, b, question{document: kind, data: data}, func(e *exchange) {
			want := `"source":{"type":"text","media_type":"text/plain","data":"a,b\n1,2"}`
			switch {
			case e.dialect == "bedrock":
				want = `"source":{"bytes":"` + data
			case e.relayed && e.face == "responses": // This API reads them.
				want = `"file_data":"data:` + kind + `;base64,` + data
			case e.dialect == "openai":
				want = `a.txt\n\na,b\n1,2`
			case !e.claude():
				want = `"data":"` + data
			}
			if e.status != 200 || !strings.Contains(e.sent, want) {
				e.t.Errorf("want %s", want)
			}
		})
	}
	eachLimit(t, b, question{document: "application/zip", data: data}, func(e *exchange) {
		if e.dialect != "openai" && (e.status != 400 || e.sent != "") {
			e.t.Error("want a refusal")
		}
	})
}

// A document without a text, or with a blank one, reaches every vendor. Bedrock gets its name as a text.
func TestLimitsOfDocumentsAlone(t *testing.T) {
	b := limitsBench(t)
	eachLimit(t, b, question{user: " ", document: provider.TypePDF, data: "JVBERi0xLjQ="}, func(e *exchange) {
		if e.status != 200 || !strings.Contains(e.sent, "JVBERi0xLjQ=") {
			e.t.Error("want the document")
		}
		named := strings.HasPrefix(gjson.Get(e.sent, "messages.0.content").Raw, `[{"text":"a txt 1"},{"document":{`)
		if e.dialect == "bedrock" && !named {
			e.t.Error("want the name before the document")
		}
	})
}

// Each vendor gets the part of a strict schema that it enforces, and the rest in descriptions. A recursive schema is
// refused for vendors that don't accept one.
func TestLimitsOfSchemas(t *testing.T) {
	b := limitsBench(t)
	const bounded = `{"type":"object","properties":{"score":{"type":"integer","minimum":1,"maximum":10}},"required":["score"],"additionalProperties":false}`
	const recursive = `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"required":["a"],"additionalProperties":false,"$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"additionalProperties":false,"required":["a"]}}}`
	describes := func(e *exchange) {
		sent := strings.ReplaceAll(e.sent, `\"`, `"`)
		described, bounds := strings.Contains(sent, "minimum: 1, maximum: 10"), strings.Contains(sent, `"minimum":1`)
		if e.is("opus-4-2025") { // It enforces no schemas: a tool's is a hint, a response's is refused.
			if (e.status == 200) != bounds {
				e.t.Error("want a refusal, or the schema as it came")
			}
			return
		}
		if want := e.claude(); !e.is("nova") && (e.status != 200 || described != want || bounds == want) {
			e.t.Errorf("described %v, bounds %v", described, bounds)
		}
	}
	eachLimit(t, b, question{schema: bounded}, describes)
	eachLimit(t, b, question{schema: bounded, prefill: "{"}, func(e *exchange) {
		if refused := e.claude() || e.is("nova"); refused != (e.status == 400 && e.sent == "") {
			e.t.Errorf("refused: %v, want %v: no Claude continues an answer under a schema", !refused, refused)
		}
	})
	eachLimit(t, b, question{tool: "f", strict: true, parameters: bounded}, func(e *exchange) {
		describes(e)
		if hint := e.is("opus-4-2025", "nova"); e.names("strict") != hint {
			e.t.Errorf("want strict to be named: %v", hint)
		}
	})
	eachLimit(t, b, question{schema: recursive}, func(e *exchange) {
		if refused := e.claude() || e.is("nova"); refused != (e.status == 400 && e.sent == "") {
			e.t.Errorf("refused: %v, want %v", !refused, refused)
		}
	})
}

// Claude enforces 24 optional properties in one request. A larger schema of an answer is refused; of a function, it is a
// hint. OpenAI has no optional properties.
func TestLimitsOfSchemaSize(t *testing.T) {
	b := limitsBench(t)
	var wide strings.Builder
	wide.WriteString(`{"type":"object","properties":{"a":{"type":"string"}`)
	for i := range 24 {
		fmt.Fprintf(&wide, `,"p%d":{"type":"string"}`, i)
	}
	wide.WriteString(`},"additionalProperties":false}`)
	eachLimit(t, b, question{schema: wide.String()}, func(e *exchange) {
		if refused := e.claude() || e.is("nova") || e.host == "azure"; refused != (e.status == 400 && e.sent == "") {
			e.t.Errorf("refused: %v, want %v", !refused, refused)
		}
	})
	eachLimit(t, b, question{tool: "f", strict: true, parameters: wide.String()}, func(e *exchange) {
		if e.host == "azure" { // OpenAI has no optional properties.
			if e.status != 400 || e.sent != "" {
				e.t.Error("want a refusal")
			}
			return
		}
		hint := e.claude() || e.is("nova")
		strict := strings.Contains(e.sent, `"strict":true`) || strings.Contains(e.sent, "VALIDATED")
		if e.status != 200 || strict == hint || e.names("strict") != hint {
			e.t.Errorf("strict is sent: %v", strict)
		}
	})
}

// If something else in the request excludes reasoning, the answer names reasoning as ignored.
func TestLimitsOfReasoning(t *testing.T) {
	b := limitsBench(t)
	for name, q := range map[string]question{
		"a temperature": {effort: "high", temperature: "0.3", maxTokens: "8000"},
		"top_p":         {effort: "high", topP: "0.5", maxTokens: "8000"},
		"a demand":      {effort: "high", tool: "f", forced: true, maxTokens: "8000"},
		"little room":   {effort: "high", maxTokens: "1000"},
	} {
		t.Run(name, func(t *testing.T) {
			eachLimit(t, b, q, func(e *exchange) {
				thinks := strings.Contains(e.sent, `"thinking`) || strings.Contains(e.sent, `"reasoning_effort"`) || strings.Contains(e.sent, `"effort"`)
				if e.status != 200 || thinks == e.names("reasoning") {
					e.t.Errorf("reasoning is sent: %v", thinks)
				}
			})
		})
	}
}

// An effort reaches the models that reason. For other models the answer names it as ignored, and also for a Claude without
// efforts if its own form asks for no thinking.
func TestLimitsOfEfforts(t *testing.T) {
	b := limitsBench(t)
	eachLimit(t, b, question{effort: "high", maxTokens: "9000"}, func(e *exchange) {
		thinks := strings.Contains(e.sent, `"thinking`) || strings.Contains(e.sent, `"reasoning_effort"`) || strings.Contains(e.sent, `"effort"`)
		hasNone := e.is("gpt-4o", "gpt-5-chat", "flash-image", "nova") || e.relayed && e.is("opus-4-2025", "opus-4-1@", "sonnet-4-5")
		want := !hasNone
		if e.status != 200 || thinks != want || e.names("reasoning") == want {
			e.t.Errorf("reasoning is sent: %v, want %v", thinks, want)
		}
	})
}

// Gemini before 3 answers 400 to functions with a form of the answer: any object is asked for by an instruction, and a
// strict schema is refused.
func TestLimitsOfFormatsWithFunctions(t *testing.T) {
	b := limitsBench(t)
	const closed = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	eachLimit(t, b, question{tool: "f", schema: closed}, func(e *exchange) {
		refused := e.is("gemini-2.5", "opus-4-2025", "nova")
		if refused != (e.status == 400 && e.sent == "") || !refused && e.status != 200 {
			e.t.Errorf("want a refusal: %v", refused)
		}
	})
	eachLimit(t, b, question{tool: "f", object: true}, func(e *exchange) {
		instructed := strings.Contains(gjson.Get(e.sent, "system").Raw+gjson.Get(e.sent, "systemInstruction").Raw, "one JSON object")
		typed := strings.Contains(e.sent, `"responseMimeType":"application/json"`) || strings.Contains(e.sent, `"type":"json_object"`)
		if want := e.is("gemini-3") || e.dialect == "openai"; e.status != 200 || typed != want || instructed == want {
			e.t.Errorf("a form is sent: %v, an instruction: %v", typed, instructed)
		}
	})
	eachLimit(t, b, question{object: true}, func(e *exchange) {
		if typed := strings.Contains(e.sent, `"responseMimeType":"application/json"`); typed != e.is("gemini") {
			e.t.Errorf("a form is sent: %v", typed)
		}
	})
}
