package gemini

import (
	"encoding/json"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/testkit/growth"
)

// What the gateway has signed is never sent, nor are the thoughts of other vendors.
func TestNativeBodiesWithStateOfOthers(t *testing.T) {
	own := Signature(json.RawMessage(`{"anthropic":{}}`))
	for name, c := range map[string]struct{ model, body, want string }{
		"the vendor's own": {
			"gemini-3-pro", `{"model":"x","contents":[{"role":"model","parts":[{"text":"a","thought":true,"thoughtSignature":"QUJD"}]}], "topK":1}`,
			`{"contents":[{"role":"model","parts":[{"text":"a","thought":true,"thoughtSignature":"QUJD"}]}], "topK":1}`,
		},
		"thoughts": {
			"gemini-3-pro",
			`{"contents":[{"role":"model","parts":[{"text":"a","thought":true,"thoughtSignature":"` + OwnSignature + `"}, {"text":"b"}]},{"parts":[{"text":"c"}]}]}`,
			`{"contents":[{"role":"model","parts":[{"text":"b"}]},{"parts":[{"text":"c"}]}]}`,
		},
		"thoughts alone": {
			"gemini-3-pro",
			`{"contents":[{"role":"model","parts":[{"text":"a","thought":true,"thought_signature":"` + own + `"}]},{"parts":[]}]}`,
			`{"contents":[{"parts":[]}]}`,
		},
		"a call": {
			"gemini-3-pro", `{"contents":[{"parts":[{"thoughtSignature":"` + own + `","functionCall":{"name":"f"}}]}]}`,
			`{"contents":[{"parts":[{"thoughtSignature":"skip_thought_signature_validator","functionCall":{"name":"f"}}]}]}`,
		},
		"a call for an older model": {
			"gemini-2.5-pro", `{"contents":[{"parts":[{"functionCall":{"name":"f"},"thoughtSignature":"` + own + `"}]}]}`,
			`{"contents":[{"parts":[{"functionCall":{"name":"f"}}]}]}`,
		},
		"turns of another type": {"m", `{"contents":"` + own + `"}`, `{"contents":"` + own + `"}`},
		"parts of another type": {"m", `{"contents":[1,{"parts":"` + own + `"}]}`, `{"contents":[1,{"parts":"` + own + `"}]}`},
	} {
		chat := &provider.Chat{Model: c.model, Native: &provider.Native{Dialect: DialectName, Body: []byte(c.body)}}
		got, err := relay(chat)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
	for _, body := range []string{"", "{", "[]", `"a"`} {
		if got, err := relay(&provider.Chat{Native: &provider.Native{Dialect: DialectName, Body: []byte(body)}}); err == nil {
			t.Errorf("%q became %s", body, got)
		}
	}
}

func TestSignatures(t *testing.T) {
	for _, c := range []struct {
		extra string
		own   bool
	}{
		{`{"google":{"thought_signature":"QUJD"}}`, false}, {`{"anthropic":{"lead":[]}}`, true}, {`{"google":{"thought_signature":"no base64"}}`, true}, {"", true},
	} {
		signature := Signature(json.RawMessage(c.extra))
		extra, own := State(signature)
		if string(extra) != c.extra || own != c.own || !isBase64(signature) {
			t.Errorf("%s became %s, then %s, own %t", c.extra, signature, extra, own)
		}
	}
	for _, signature := range []string{OwnSignature + "!", OwnSignature + "QUJD", OwnSignature + "e30", OwnSignature + "ew=="} {
		if extra, own := State(signature); extra != nil || !own {
			t.Errorf("%s: %s, own %t, want no state", signature, extra, own)
		}
	}
}

func FuzzState(f *testing.F) {
	f.Add("QUJD")
	f.Add(OwnSignature + "e30=")
	f.Fuzz(func(t *testing.T, signature string) {
		extra, own := State(signature)
		if len(extra) > 0 && !json.Valid(extra) {
			t.Errorf("%q has the state %q", signature, extra)
		}
		if again, still := State(Signature(extra)); own && still && string(again) != string(extra) {
			t.Errorf("%q has the state %q, then %q", signature, extra, again)
		}
	})
}

func TestNativeGrowsLinearly(t *testing.T) {
	part := `{"text":"a","thought":true,"thoughtSignature":"` + OwnSignature + `"}`
	inputs := []growth.Input{
		growth.Repeat("parts", `{"contents":[{"parts":[`+part, ","+part, "]}]}"),
		growth.Repeat("turns", `{"contents":[{"parts":[`+part+"]}", `,{"parts":[`+part+`,{"text":"b"}]}`, "]}"),
	}
	inputs = append(inputs, growth.Around(`{"x":"`+OwnSignature+`","contents":`, growth.ValidJSON, "}")...)
	inputs = append(inputs, growth.Around(`{"contents":[{"parts":[{"thoughtSignature":"`+OwnSignature+`","x":`, growth.ValidJSON, "}]}]}")...)
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		_, _ = relay(&provider.Chat{Native: &provider.Native{Dialect: DialectName, Body: text}})
	})...)
}

func TestStateGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{growth.Repeat("a signature", OwnSignature, "QUJD", ""), growth.Repeat("a vendor's", "", "QUJD", "")}
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		extra, _ := State(string(text))
		_ = Signature(extra)
	})...)
}
