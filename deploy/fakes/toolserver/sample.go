package toolserver

import (
	"encoding/json"
	"strconv"
	"time"
)

// asked is what the fake gives with its questions for a model.
const asked = "asked a model"

// answerWait is how long the fake waits for an answer of a client.
const answerWait = 30 * time.Second

// askModel asks a model through the client: as many questions as the call has steps, and 1 if it has none, all with its
// text.
func (x *execution) askModel() {
	steps := min(max(x.args.Steps, 1), maxSteps)
	switch {
	case x.m.Params.RequestState == asked && x.m.Params.InputResponses != nil:
		var answers map[string]sampled
		if json.Unmarshal(x.m.Params.InputResponses, &answers) != nil || len(answers) != steps {
			x.fail("the answers are not those of " + strconv.Itoa(steps) + " questions")
			return
		}
		x.text(answers["question-1"].String())
	case !x.samples():
		x.text("no model to ask")
	case x.version == modernVersion:
		questions := make(map[string]any, steps)
		for i := range steps {
			questions["question-"+strconv.Itoa(i+1)] = map[string]any{"method": methodSample, "params": x.question()}
		}
		x.result(map[string]any{"resultType": "input_required", "requestState": asked, "inputRequests": questions})
	default:
		x.askSession(steps)
	}
}

const methodSample = "sampling/createMessage"

// question returns the parameters of a question.
func (x *execution) question() map[string]any {
	return map[string]any{
		"maxTokens": max(x.args.Size, 100), "systemPrompt": "Answer a tool.",
		"messages": []any{map[string]any{"role": "user", "content": map[string]string{"type": "text", "text": x.args.Text}}},
	}
}

// samples reports whether the client has declared that it can ask a model.
func (x *execution) samples() bool {
	if x.version != modernVersion {
		x.server.mu.Lock()
		defer x.server.mu.Unlock()
		return x.server.sessions[x.session].samples
	}
	return declares(x.m.meta["io.modelcontextprotocol/clientCapabilities"])
}

// declares reports whether capabilities of a client have sampling.
func declares(capabilities json.RawMessage) bool {
	var c struct {
		Sampling *struct{} `json:"sampling"`
	}
	return json.Unmarshal(capabilities, &c) == nil && c.Sampling != nil
}

// sampled is an answer of a model.
type sampled struct {
	Content struct {
		Text string `json:"text"`
	} `json:"content"`
	Model      string `json:"model"`
	StopReason string `json:"stopReason"`
}

// String returns what the answer says, and how it ended.
func (s sampled) String() string { return s.Content.Text + " (" + s.Model + ", " + s.StopReason + ")" }

// askSession asks one question after the other on the stream of the call.
func (x *execution) askSession(steps int) {
	var last sampled
	for i := range steps {
		got := x.server.expect(x.session, i+1)
		x.event(map[string]any{"jsonrpc": "2.0", "id": got.id, "method": methodSample, "params": x.question()})
		select {
		case m := <-got.answer:
			if m.Error != nil {
				x.fail("the model was refused: " + string(m.Error))
				return
			}
			if json.Unmarshal(m.Result, &last) != nil {
				x.fail("the answer is of another form")
				return
			}
		case <-time.After(answerWait):
			x.fail("no answer")
			return
		case <-x.r.Context().Done():
			return
		}
	}
	x.text(last.String())
}

// fail answers with the failure of the tool.
func (x *execution) fail(text string) {
	x.result(map[string]any{"isError": true, "content": []any{map[string]string{"type": "text", "text": text}}})
}

// expected is an answer that a client is to give.
type expected struct {
	session, id string
	answer      chan *request
}

// maxExpected bounds how many answers are waited for; the oldest beyond it get none.
const maxExpected = 10_000

// expect waits for the answer to a question in a session.
func (s *Server) expect(session string, number int) expected {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.expected) >= maxExpected {
		clear(s.expected)
	}
	s.questions++
	e := expected{session: session, id: "question-" + strconv.Itoa(number) + "-" + strconv.Itoa(s.questions), answer: make(chan *request, 1)}
	s.expected[e.id] = e
	return e
}

// answered takes the answer of a client. It reports whether one was waited for in that session.
func (s *Server) answered(session string, m *request) bool {
	var id string
	if json.Unmarshal(m.ID, &id) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, known := s.expected[id]
	if !known || e.session != session {
		return false
	}
	delete(s.expected, id)
	e.answer <- m
	return true
}
