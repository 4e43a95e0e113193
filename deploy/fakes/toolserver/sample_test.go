package toolserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/fakes/fakestest"
	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/toolserver"
)

const answered = `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m-1","stopReason":"endTurn"}`

// Under the revision without sessions the model is asked by a result.
func TestAsksAModel(t *testing.T) {
	fake := toolserver.New(fault.Script{})
	ask := func(capabilities, more string) gjson.Result {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask_model","arguments":{"text":"Where?","steps":2},` + more +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`
		return gjson.Get(fakestest.Send(t, fake, http.MethodPost, "/mcp", body, map[string]string{
			"Accept": accept, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "ask_model",
		}).Body.String(), "result")
	}
	if got := ask("{}", ""); got.Get("content.0.text").Str != "no model to ask" {
		t.Errorf("%s", got.Raw)
	}
	got := ask(`{"sampling":{}}`, "")
	if got.Get("resultType").Str != "input_required" || got.Get("inputRequests.question-2.params.messages.0.content.text").Str != "Where?" {
		t.Errorf("%s", got.Raw)
	}
	state := `"requestState":"` + got.Get("requestState").Str + `",`
	if got = ask(`{"sampling":{}}`, state+`"inputResponses":{"question-1":`+answered+`,"question-2":`+answered+`},`); got.Get("content.0.text").Str != "Paris (m-1, endTurn)" {
		t.Errorf("%s", got.Raw)
	}
	if got = ask(`{"sampling":{}}`, state+`"inputResponses":{"question-1":`+answered+`},`); !got.Get("isError").Bool() {
		t.Errorf("%s", got.Raw)
	}
}

// In a session the model is asked on the stream of the call.
func TestAsksAModelInASession(t *testing.T) {
	fake := httptest.NewServer(toolserver.New(fault.Script{}))
	defer fake.Close()
	send := func(body, session string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fake.URL+"/legacy", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		r.Header.Set("Mcp-Session-Id", session)
		answer, err := fake.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for _, c := range []struct{ answer, want string }{
		{`"result":` + answered, "Paris (m-1, endTurn)"},
		{`"error":{"code":-1,"message":"no"}`, `the model was refused: {"code":-1,"message":"no"}`},
	} {
		opened := send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}}}}`, "")
		session := opened.Header.Get("Mcp-Session-Id")
		_ = opened.Body.Close()
		stream := send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask_model","arguments":{"text":"Where?"}}}`, session)
		events := bufio.NewScanner(stream.Body)
		next := func() gjson.Result {
			for events.Scan() {
				if data, ok := strings.CutPrefix(events.Text(), "data: "); ok {
					return gjson.Parse(data)
				}
			}
			t.Fatalf("no event: %v", events.Err())
			return gjson.Result{}
		}
		question := next()
		if question.Get("method").Str != "sampling/createMessage" || question.Get("params.maxTokens").Int() != 100 {
			t.Errorf("%s", question.Raw)
		}
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, question.Get("id").Raw, c.answer)
		for i, want := range []int{http.StatusBadRequest, http.StatusAccepted, http.StatusBadRequest} { // In another session, in this one, and again.
			of := session
			if i == 0 {
				other := send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, "")
				of = other.Header.Get("Mcp-Session-Id")
				_ = other.Body.Close()
			}
			taken := send(answer, of)
			_ = taken.Body.Close()
			if taken.StatusCode != want {
				t.Errorf("answer %d: %d, want %d", i, taken.StatusCode, want)
			}
		}
		if got := next(); got.Get("result.content.0.text").Str != c.want {
			t.Errorf("%s, want %s", got.Raw, c.want)
		}
		_, _ = io.Copy(io.Discard, stream.Body)
		_ = stream.Body.Close()
	}
}
