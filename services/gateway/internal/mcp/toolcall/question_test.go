package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

const (
	ableOfAll = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true}}`
	form      = `{"message":"who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"$ref":"#"}}`
	sampling  = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5,"_meta":{"a":1}}`
	onlyTools = `{"messages":[],"maxTokens":5,"tools":[]}`
)

// A server of a session is shown what its caller can answer, and gets that answer, the gateway's, or none.
func TestQuestionsOfServers(t *testing.T) {
	answered := func(text string) func([]input.Request) (map[string]json.RawMessage, error) {
		return func(asked []input.Request) (map[string]json.RawMessage, error) {
			return map[string]json.RawMessage{asked[0].Key: json.RawMessage(text)}, nil
		}
	}
	fails := func(err error) func([]input.Request) (map[string]json.RawMessage, error) {
		return func([]input.Request) (map[string]json.RawMessage, error) { return nil, err }
	}
	gateway := toolrule.Sampling{By: toolrule.SamplingByGateway}
	for name, test := range map[string]struct {
		client       string // capabilities of a caller that can be asked; empty for one that can't
		sampling     toolrule.Sampling
		method, asks string
		by           func([]input.Request) (map[string]json.RawMessage, error)
		shown        string // to the server
		put          string // to the caller, in its parameters; empty for nothing
		want         string // a part of the answer
		code         int64  // of an error
	}{
		"form": {
			client: ableOfAll, method: wire.MethodElicit, asks: form, by: answered(`{"action":"accept","content":{"name":"Ada"},"_meta":{}}`),
			shown: `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`, put: `"files: who?"`, want: `{"action":"accept","content":{"name":"Ada"}}`,
		},
		"an answer that was not asked for": {
			client: ableOfAll, method: wire.MethodElicit, asks: form, by: answered(`{"action":"accept","content":{"other":"secret"}}`),
			put: `who?`, code: wire.CodeInvalidParams,
		},
		"an answer of another kind": {client: ableOfAll, method: wire.MethodElicit, asks: form, by: answered(`[]`), put: `who?`, code: wire.CodeInvalidParams},
		"no answer by its key":      {client: ableOfAll, method: wire.MethodElicit, asks: form, by: func([]input.Request) (map[string]json.RawMessage, error) { return nil, nil }, put: `who?`, code: wire.CodeInvalidParams},
		"a form for a secret": {
			client: ableOfAll, method: wire.MethodElicit, code: wire.CodeInvalidParams,
			asks: `{"message":"m","requestedSchema":{"type":"object","properties":{"password":{"type":"string"}}}}`,
		},
		"no time":             {client: ableOfAll, method: wire.MethodElicit, asks: form, by: fails(context.DeadlineExceeded), put: "who?", want: `{"action":"cancel"}`},
		"the caller fails":    {client: ableOfAll, method: wire.MethodElicit, asks: form, by: fails(&wire.Error{Code: -7, Message: "busy", Data: json.RawMessage(`1`)}), put: "who?", code: -7},
		"a page of its own":   {client: ableOfAll, method: wire.MethodElicit, asks: `{"mode":"url","message":"m","url":"https://files.example/a","elicitationId":"theirs"}`, by: answered(`{"action":"accept"}`), put: `"https://files.example/a","elicitationId":"`, want: `{"action":"accept"}`},
		"a page of a bank":    {client: ableOfAll, method: wire.MethodElicit, asks: `{"mode":"url","message":"m","url":"https://bank.example/a"}`, by: answered(`{"action":"decline"}`), put: `bank.example`, want: `decline`},
		"a page of others":    {client: ableOfAll, method: wire.MethodElicit, asks: `{"mode":"url","message":"m","url":"https://evil.example/a"}`, code: wire.CodeInvalidParams},
		"a page, of forms":    {client: `{"elicitation":{}}`, method: wire.MethodElicit, asks: `{"mode":"url","message":"m","url":"https://files.example/a"}`, shown: `{"elicitation":{"form":{}}}`, want: `cancel`},
		"what isn't declared": {client: `{"roots":{}}`, method: wire.MethodElicit, asks: form, shown: `{"roots":{}}`, want: `{"action":"cancel"}`},
		"without a stream":    {method: wire.MethodElicit, asks: form, want: `{"action":"cancel"}`},
		"roots": {
			client: ableOfAll, method: wire.MethodRoots, asks: `{"x":1}`, by: answered(`{"roots":[{"uri":"file:///a","name":"n","x":1}]}`),
			put: "null", want: `{"roots":[{"uri":"file:///a","name":"n"}]}`,
		},
		"roots of none": {method: wire.MethodRoots, code: wire.CodeMethodNotFound},
		"sampling": {
			client: ableOfAll, method: wire.MethodSample, asks: sampling, put: `"maxTokens":5}`,
			by: answered(`{"role":"assistant","model":"m","content":{"type":"text","text":"yes"}}`), want: `"yes"`,
		},
		"sampling with tools":      {client: `{"sampling":{}}`, method: wire.MethodSample, asks: onlyTools, shown: `{"sampling":{}}`, code: codeRejected},
		"sampling without params":  {client: ableOfAll, method: wire.MethodSample, code: wire.CodeInvalidParams},
		"sampling that is refused": {client: ableOfAll, method: wire.MethodSample, asks: sampling, by: fails(&wire.Error{Code: -1, Message: strings.Repeat("x", 2000)}), put: "hi", code: -1},
		"sampling of none":         {method: wire.MethodSample, asks: sampling, code: codeRejected},
		"sampling by the gateway":  {client: ableOfAll, sampling: gateway, method: wire.MethodSample, asks: `{"n":1}`, shown: `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`, want: `{"for":"files","params":{"n":1}}`},
		"sampling by the gateway, with tools": {
			client: `{}`, sampling: toolrule.Sampling{By: toolrule.SamplingByGateway, Tools: true}, method: wire.MethodSample, asks: `{}`,
			shown: `{"sampling":{"tools":{}}}`, want: `"for"`,
		},
		"sampling by the gateway, without a stream": {sampling: gateway, method: wire.MethodSample, asks: `{}`, shown: `{"sampling":{}}`, want: `"for"`},
		"sampling by none": {
			client: ableOfAll, sampling: toolrule.Sampling{By: toolrule.SamplingRefused}, method: wire.MethodSample, asks: sampling,
			shown: `{"elicitation":{"form":{},"url":{}},"roots":{}}`, code: codeRejected,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, w := open(t)
			c.Sampler = &sampler{}
			if test.sampling.By != "" {
				w.settings.Sampling = []toolrule.SamplingRule{{Sampling: test.sampling}}
			}
			w.settings.Elicitation = []toolrule.ElicitationRule{{Origins: []string{"https://bank.example"}}}
			r := request(Name{"files", "read"}, "{}")
			put := ""
			if r.Client.Capabilities = json.RawMessage(test.client); test.client != "" {
				r.Client.Ask = func(_ context.Context, asked []input.Request) (map[string]json.RawMessage, error) {
					if put = string(asked[0].Params); asked[0].Params == nil {
						put = "null"
					}
					if len(asked) != 1 || asked[0].Method != test.method || test.by == nil {
						t.Fatalf("asked %+v", asked)
					}
					return test.by(asked)
				}
			}
			w.answer = func(ctx context.Context, call *upstream.Call) (upstream.Result, error) {
				if got := string(call.Ask.Capabilities); test.shown != "" && got != test.shown {
					t.Errorf("the server is shown %s", got)
				}
				var params json.RawMessage
				if test.asks != "" {
					params = json.RawMessage(test.asks)
				}
				got, failure := call.Ask.Answer(ctx, test.method, params)
				switch {
				case test.code != 0 && (failure == nil || failure.Code != test.code || failure.Data != nil || len(failure.Message) > maxRefusal):
					t.Errorf("%s, %+v, want code %d", got, failure, test.code)
				case test.code == 0 && (failure != nil || !strings.Contains(string(got), test.want)):
					t.Errorf("%s, %+v, want %s", got, failure, test.want)
				}
				return upstream.Result{Kind: upstream.KindComplete, Text: json.RawMessage(`{"content":[]}`)}, nil
			}
			if _, err := c.Call(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(put, test.put) || (put == "") != (test.put == "") {
				t.Errorf("the caller was asked %q, want %q", put, test.put)
			}
			if strings.Contains(put, "$ref") || strings.Contains(put, "theirs") {
				t.Errorf("the caller was asked what was not screened: %s", put)
			}
			if len(w.rows) != 1 {
				t.Errorf("%d ledger rows", len(w.rows))
			}
		})
	}
}

// Servers may ask while they answer queries, too.
func TestQuestionsInQueries(t *testing.T) {
	c, w := offering(t)
	q := &Query{Asker: *asker(), Method: wire.MethodReadResource, Server: "files", Name: "file:///a"}
	q.Client = Client{Capabilities: json.RawMessage(ableOfAll), Ask: func(_ context.Context, asked []input.Request) (map[string]json.RawMessage, error) {
		return map[string]json.RawMessage{asked[0].Key: json.RawMessage(`{"action":"decline"}`)}, nil
	}}
	if _, err := c.Query(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	got, failure := w.queried[0].Ask.Answer(t.Context(), wire.MethodElicit, json.RawMessage(form))
	if failure != nil || string(got) != `{"action":"decline"}` || len(w.queried[0].Ask.Capabilities) == 0 {
		t.Errorf("%s, %v", got, failure)
	}
}

// What is no error of a rule is not shown.
func TestBrokenQuestions(t *testing.T) {
	if e := broken(errors.New("secret")); e.Code != wire.CodeInternal || strings.Contains(e.Message, "secret") {
		t.Errorf("%+v", e)
	}
}
