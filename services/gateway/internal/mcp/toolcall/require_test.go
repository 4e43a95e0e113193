package toolcall

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/platform/apierr"
)

// answering returns an Ask that answers "ann", after a change.
func answering(change func()) func(context.Context, []input.Request) (map[string]json.RawMessage, error) {
	return func(context.Context, []input.Request) (map[string]json.RawMessage, error) {
		change()
		return map[string]json.RawMessage{"name": json.RawMessage(`{"action":"accept","content":{"name":"ann"}}`), "other": nil}, nil
	}
}

// byGateway makes samplings be answered by the gateway.
func byGateway(c *Caller, w *world) *sampler {
	s := &sampler{}
	c.Sampler = s
	w.settings.Sampling = []toolrule.SamplingRule{{Sampling: toolrule.Sampling{By: toolrule.SamplingByGateway, MaxRequests: 2}}}
	return s
}

// A caller whose request goes on is asked while it does, and the gateway makes the next round.
func TestCallerIsAskedLive(t *testing.T) {
	c, w, used := roundly(t, asking(askName, askRoots), asking(askName), done)
	r := able("{}")
	var asked [][]input.Request
	answer := answering(func() {})
	r.Client.Ask = func(ctx context.Context, put []input.Request) (map[string]json.RawMessage, error) {
		asked = append(asked, put)
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("asked without an end")
		}
		return answer(ctx, put)
	}
	got, err := c.Call(t.Context(), r)
	if err != nil || string(got.Text) != string(done.Text) {
		t.Fatalf("%s %v", got.Text, err)
	}
	if len(asked) != 2 || len(asked[0]) != 2 || !strings.Contains(string(asked[0][0].Params), "files: Who?") || len(used.used) != 0 {
		t.Errorf("asked %v, used %v", asked, used.used)
	}
	if len(w.sent) != 3 || string(w.sent[1].Inputs) != "{"+ann+"}" || w.sent[1].State != "theirs" {
		t.Errorf("sent %d, %s", len(w.sent), w.sent[1].Inputs)
	}
	if len(w.rows) != 3 || w.rows[0].Cost != 7e9 || w.rows[1].Cost != 0 || w.rows[2].Cost != 0 || w.rows[1].ID == w.rows[0].ID || len(w.counted) != 1 {
		t.Errorf("billed %+v, counted %d", w.rows, len(w.counted))
	}
	if len(w.records) != 1 || w.records[0].Report.Cost != 7e9 {
		t.Errorf("recorded %+v", w.records)
	}
}

// A caller that does not answer, or wrongly, ends the call.
func TestLiveCallerFails(t *testing.T) {
	for name, test := range map[string]struct {
		ask    func(ctx context.Context, cancel func()) (map[string]json.RawMessage, error)
		reason apierr.Reason
	}{
		"an error": {func(context.Context, func()) (map[string]json.RawMessage, error) {
			return nil, apierr.Unavailable("the answer can't be received", nil)
		}, apierr.ReasonUnavailable},
		"a wrong answer": {func(context.Context, func()) (map[string]json.RawMessage, error) {
			return map[string]json.RawMessage{"name": json.RawMessage(`{"action":1}`)}, nil
		}, apierr.ReasonInvalidRequest},
		"it is gone": {func(ctx context.Context, cancel func()) (map[string]json.RawMessage, error) {
			cancel()
			return nil, ctx.Err()
		}, apierr.ReasonCancelled},
	} {
		c, w, _ := roundly(t, asking(askName))
		ctx, cancel := context.WithCancel(t.Context())
		r := able("{}")
		r.Client.Ask = func(ctx context.Context, _ []input.Request) (map[string]json.RawMessage, error) {
			return test.ask(ctx, cancel)
		}
		_, err := c.Call(ctx, r)
		if wants(t, err, test.reason); len(w.sent) != 1 || len(w.rows) != 1 || len(w.reserved) != 1 {
			t.Errorf("%s: sent %d, billed %d, reserved %v", name, len(w.sent), len(w.rows), w.reserved)
		}
		cancel()
	}
}

// A run that is revoked while its caller is asked ends the call.
func TestRevokedWhileAsked(t *testing.T) {
	c, w, _ := roundly(t, asking(askName), done)
	r := able("{}")
	r.Client.Ask = answering(func() { w.cause(run.ErrRevoked) })
	_, err := c.Call(t.Context(), r)
	if wants(t, err, run.ReasonRevoked); len(w.sent) != 1 {
		t.Errorf("sent %d", len(w.sent))
	}
}

// A server that becomes another one while its caller is asked gets no answer.
func TestMovedWhileAsked(t *testing.T) {
	c, w, _ := roundly(t, asking(askName), done)
	r := able("{}")
	r.Client.Ask = answering(func() { w.servers[0].URL = "https://evil.example" })
	_, err := c.Call(t.Context(), r)
	if wants(t, err, definition.ReasonChanged); len(w.sent) != 1 {
		t.Errorf("sent %d", len(w.sent))
	}
}

// The gateway answers samplings itself where the policy says so, and asks the caller for the rest.
func TestGatewaySamples(t *testing.T) {
	c, w, _ := roundly(t, asking(askModel), asking(askName, askModel), done)
	s := byGateway(c, w)
	r := able("{}")
	first := begin(t, c, r)
	if len(s.asked) != 2 || len(w.sent) != 2 || !strings.HasPrefix(string(w.sent[1].Inputs), `{"model":{"for":"files"`) || strings.Contains(requestsOf(first.Text), "sampling") {
		t.Errorf("asked %d times, sent %d, the caller: %s", len(s.asked), len(w.sent), requestsOf(first.Text))
	}
	if _, err := c.Call(t.Context(), next(r, first, ann+`,"model":{"role":"user","content":{"type":"text","text":"mine"},"model":"x"}`)); err != nil {
		t.Fatal(err)
	}
	const want = `{` + ann + `,"model":{"for":"files","params":{"messages":[],"maxTokens":9}}}`
	if got := string(w.sent[2].Inputs); got != want || len(s.asked) != 2 {
		t.Errorf("sent %s, want %s", got, want)
	}

	c, w, _ = roundly(t, asking(askModel)) // Again and again, also over several requests.
	s = byGateway(c, w)
	_, err := c.Call(t.Context(), request(read, "{}"))
	if wants(t, err, ReasonSamplingRefused); len(s.asked) != 2 || len(w.sent) != 3 {
		t.Errorf("asked %d times, sent %d", len(s.asked), len(w.sent))
	}
	c, w, _ = roundly(t, asking(askName, askModel))
	s = byGateway(c, w)
	r = able("{}")
	first = begin(t, c, r)
	second := next(r, first, "")
	third := next(second, begin(t, c, second), "")
	_, err = c.Call(t.Context(), third)
	if wants(t, err, ReasonSamplingRefused); len(s.asked) != 2 {
		t.Errorf("asked %d times", len(s.asked))
	}
}

// What a server may not ask ends its call, which is billed, and nothing of it reaches the caller or is paid for.
func TestRefusedInputs(t *testing.T) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":{"method":"roots/list"}`, i)
	}
	form := func(schema string) string {
		return `"f":{"method":"elicitation/create","params":{"message":"m","requestedSchema":` + schema + `}}`
	}
	page := func(url string) string {
		return `"p":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"` + url + `"}}`
	}
	for name, test := range map[string]struct {
		requests     []string
		capabilities string
	}{
		"10,000 requests":        {many, capable},
		"a deep schema":          {[]string{form(`{"type":"object","properties":` + strings.Repeat(`{"a":`, 50) + "1" + strings.Repeat("}", 50) + "}")}, capable},
		"a schema of itself":     {[]string{form(`{"$ref":"#"}`)}, capable},
		"a secret":               {[]string{form(`{"type":"object","properties":{"password":{"type":"string"}}}`)}, capable},
		"a page of another":      {[]string{page("https://evil.example/")}, capable},
		"a page like its own":    {[]string{page("https://files.example.evil.example/")}, capable},
		"a method of its own":    {[]string{`"x":{"method":"tools/call"}`}, capable},
		"what was not declared":  {[]string{askModel, askName}, `{"sampling":{}}`},
		"a page where it can't":  {[]string{page("https://files.example/")}, `{"elicitation":{}}`},
		"tools where they can't": {[]string{`"m":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}}`}, `{"sampling":{}}`},
		"a large request":        {[]string{form(`{"type":"object","properties":{},"x":"` + strings.Repeat("x", 64<<10) + `"}`)}, capable},
	} {
		c, w, _ := roundly(t, asking(test.requests...))
		r := able("{}")
		r.Client.Capabilities = json.RawMessage(test.capabilities)
		_, err := c.Call(t.Context(), r)
		if wants(t, err, ReasonInputRefused); len(w.rows) != 1 || err == nil || len(err.Error()) > 300 || strings.Contains(err.Error(), "evil") {
			t.Errorf("%s: %v, billed %d", name, err, len(w.rows))
		}
	}
	c, w, _ := roundly(t, asking(askModel, `"x":{"method":"elicitation/create"}`))
	s := byGateway(c, w)
	_, err := c.Call(t.Context(), able("{}"))
	if wants(t, err, ReasonInputRefused); len(s.asked) != 0 {
		t.Error("a completion was paid for though the server asks for what it may not")
	}
	for name, answer := range map[string]string{
		"a state without end": `{"resultType":"input_required","requestState":"` + strings.Repeat("x", maxState+1) + `"}`,
		"more than a state":   `{"resultType":"input_required","inputRequests":{` + strings.Join(forms(9), ",") + `}}`,
	} {
		c, _, _ := roundly(t, upstream.Result{Kind: upstream.KindInputRequired, Text: json.RawMessage(answer)})
		_, err := c.Call(t.Context(), able("{}"))
		if wants(t, err, ReasonInputRefused); err != nil && len(err.Error()) > 300 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// forms returns n requests of 33 KiB.
func forms(n int) (all []string) {
	fields := make([]string, 60)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"a%d":{"type":"string","description":"%s"}`, i, strings.Repeat("d", 550))
	}
	for i := range n {
		all = append(all, fmt.Sprintf(`"f%d":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{%s}}}}`, i, strings.Join(fields, ",")))
	}
	return all
}

// Pages of the server's own, and those that the policy names, may be opened.
func TestPages(t *testing.T) {
	page := func(url string) upstream.Result {
		return asking(`"p":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"` + url + `"}}`)
	}
	for url, ok := range map[string]bool{"https://files.example:443/a": true, "https://bank.example/": true, "https://bank.example:8443/": false} {
		c, w, _ := roundly(t, page(url))
		w.settings.Elicitation = []toolrule.ElicitationRule{{Servers: []string{"files"}, Origins: []string{"https://bank.example"}}}
		answer, err := c.Call(t.Context(), able("{}"))
		if (err == nil) != ok || ok && !strings.Contains(requestsOf(answer.Text), url) {
			t.Errorf("%s: %s %v", url, answer.Text, err)
		}
	}
}

// A call has at most ten rounds, in one request as in several, and fifteen minutes.
func TestRoundsEnd(t *testing.T) {
	c, w, _ := roundly(t, asking(askName))
	r := able("{}")
	for range maxRounds - 1 {
		r = next(r, begin(t, c, r), ann)
	}
	_, err := c.Call(t.Context(), r)
	if wants(t, err, ReasonInputRefused); len(w.sent) != maxRounds {
		t.Errorf("sent %d", len(w.sent))
	}
	c, w, _ = roundly(t, asking(askName))
	r = able("{}")
	r.Client.Ask = answering(func() {})
	_, err = c.Call(t.Context(), r)
	if wants(t, err, ReasonInputRefused); len(w.sent) != maxRounds {
		t.Errorf("in one request: sent %d", len(w.sent))
	}
}

// Rounds that wait end in time: the caller's, and those of a server that only wants to be asked again.
func TestRoundsEndInTime(t *testing.T) {
	c, w, _ := roundly(t, asking(askName))
	alone := *c
	alone.Limits, alone.Circuits = noLimits{}, noCircuits{}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := able("{}")
		r.Client.Ask = func(ctx context.Context, _ []input.Request) (map[string]json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		_, err := alone.Call(t.Context(), r)
		if err == nil || time.Since(began) != roundsTime || len(w.sent) != 1 {
			t.Errorf("%v after %s, sent %d", err, time.Since(began), len(w.sent))
		}
		w.answers(upstream.Result{Kind: upstream.KindInputRequired, Text: json.RawMessage(`{"requestState":"later"}`)})
		began, w.sent = time.Now(), nil
		_, err = alone.Call(t.Context(), r)
		if wants(t, err, ReasonInputRefused); time.Since(began) != (maxRounds-1)*statePause || len(w.sent) != maxRounds || w.sent[1].State != "later" {
			t.Errorf("after %s, sent %d", time.Since(began), len(w.sent))
		}
	})
}
