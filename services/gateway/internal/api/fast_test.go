package api_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/proto"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

func decoder(tb testing.TB) func(r *http.Request, m proto.Message) error {
	tb.Helper()
	server, err := rpc.New(rpc.Options{
		Log: slog.New(slog.DiscardHandler), Tracer: tracenoop.NewTracerProvider().Tracer(""), Meter: metricnoop.NewMeterProvider().Meter(""),
		Role: optionsv1.E_Role, RawJSON: optionsv1.E_RawJson, NullJSON: optionsv1.E_NullJson, ErrorBody: apierr.NewDocument, MaxBody: 1 << 20,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return server.Decode
}

const everyField = `{"organization_id":"acme","model":"m","messages":[{"role":"user","content":[{"type":"text","text":"é\u00e9 <&>"}]},
	{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"},"extra_content":{"b" : 2.50}}]},
	{"role":"tool","tool_call_id":"1","content":"42","name":"f"}],"stream":true,"tools":[{"type":"function","function":{"name":"f","description":"d",
	"parameters":{"type":"object","x": 1e3},"strict":false}}],"optimization_goal":"cost","byok":{"mode":"prefer"},"allow_substitution":false,
	"data_classification":"c","locale":"de","language_mode":"force","provider":"p","max_tokens":5,"temperature":0,"top_p":0.1,"stop":["a","b"],
	"seed":0,"tool_choice":{"type":"function","function":{"name":"f"}},"response_format":{"type":"json_object"},"metadata":{"k":"v"},"cache":"bypass"}`

// FuzzFastDecode is FuzzFastAgrees for the most frequent message.
func FuzzFastDecode(f *testing.F) {
	for _, seed := range []string{
		everyField, `{"messages":[{"role":"user","content":"hi"}]}`, `{"messages":[{}]}`, `{"seed":1.0,"max_tokens":1e1}`,
		`{"messages":[[]]}`, `{"metadata":{"a":"b","a":"c"}}`, `{"temperature":1e999}`, `{"seed":2147483648}`, `{"topP":0.5,"top_p":0.5}`,
		`{"tool_choice":"auto", "messages" : [ {"role":"user","content": "x" } ] }`, `{"stop":[1]}`, `{"tool_choice":{"a":1,"a":2}}`,
		`{"messages":[{"role":"assistant","content":null}]}`, `{"tool_choice":` + strings.Repeat("[", 150) + strings.Repeat("]", 150) + `}`,
		`{"tool_choice":` + strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000) + `}`, `{"tool_choice":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
	} {
		f.Add(seed)
	}
	decode := decoder(f)
	f.Fuzz(func(t *testing.T, body string) {
		readBoth(t, decode, new(gatewayv1.LlmRequest).ProtoReflect().Type(), body)
	})
}

// The bodies are that of deploy/load, one with tools, and a conversation of 16 kB. The second of each pair is left to
// protojson, because a name in it is escaped.
func BenchmarkDecodeChat(b *testing.B) {
	decode := decoder(b)
	question := strings.Repeat("How long is the train to the coast, and how many carriages does it have? ", 10)
	chat := `{"model":"load/load","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"` + question + `"}],"max_tokens":500,"stream":true}`
	tool := `{"type":"function","function":{"name":"timetable","description":"Trains of a day.","parameters":{"type":"object",
		"properties":{"from":{"type":"string","description":"A station."},"to":{"type":"string"},"day":{"type":"integer","minimum":1}},"required":["from","to"]}}}`
	tools := strings.Replace(chat, `{`, `{"tools":[`+tool+`],"tool_choice":"auto","temperature":0.7,"metadata":{"app":"demo"},`, 1)
	turns := strings.Repeat(`{"role":"assistant","content":"`+question+`"},{"role":"user","content":"`+question+`"},`, 10)
	conversation := strings.Replace(chat, `{"role":"user"`, turns+`{"role":"user"`, 1)
	byProtojson := func(text string) string { return strings.Replace(text, `"model"`, `"\u006dodel"`, 1) }
	for _, body := range []struct{ name, text string }{
		{"load/fast", chat},
		{"load/protojson", byProtojson(chat)},
		{"tools/fast", tools},
		{"tools/protojson", byProtojson(tools)},
		{"conversation/fast", conversation},
		{"conversation/protojson", byProtojson(conversation)},
	} {
		b.Run(body.name, func(b *testing.B) {
			r, text := httptest.NewRequest(http.MethodPost, "/", nil), strings.NewReader("")
			r.Body = io.NopCloser(text)
			b.ReportAllocs()
			for b.Loop() {
				text.Reset(body.text)
				if err := decode(r, new(gatewayv1.LlmRequest)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Content of gRPC callers is not validated before.
func FuzzToText(f *testing.F) {
	for _, seed := range []string{`"plain"`, `"é"`, `"a\nb"`, `"\u00e9"`, `"`, `""`, `"a"b"`, "\"a\nb\"", "\"\xff\"", `"a`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want string
		wantErr := json.Unmarshal(raw, &want)
		if len(raw) == 0 || raw[0] != '"' {
			return
		}
		got, err := api.ToText(raw)
		if (err == nil) != (wantErr == nil) || got != want {
			t.Errorf("%q: %q, %v; want %q, %v", raw, got, err, want, wantErr)
		}
	})
}
