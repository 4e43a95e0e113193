package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// metricChat is the metric that counts chat calls.
const metricChat = "llm_requests"

const question = "In one sentence: what is a switchyard?"

// usage holds the token counts of a completion.
type usage struct {
	PromptTokens     int     `json:"prompt_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	ProviderUsed     string  `json:"provider_used"`
	CostCents        float64 `json:"cost_cents"`
	Estimated        bool    `json:"estimated"`
	CacheHit         bool    `json:"cache_hit"`
}

func (u *usage) check() error {
	switch {
	case u == nil:
		return errors.New("there is no usage")
	case u.ProviderUsed == "" || u.PromptTokens <= 0 || u.CompletionTokens <= 0:
		return fmt.Errorf("the usage is incomplete: %+v", *u)
	}
	return nil
}

func (u *usage) String() string {
	origin := "reported by the provider"
	if u.Estimated {
		origin = "estimated"
	}
	return fmt.Sprintf("provider %s, %d tokens in, %d out, %g cents, %s",
		u.ProviderUsed, u.PromptTokens, u.CompletionTokens, u.CostCents, origin)
}

func (s *show) ask(stream bool) call {
	body, _ := json.Marshal(map[string]any{ // strings and a bool always marshal
		"model":    "sandbox",
		"messages": []map[string]string{{"role": "user", "content": question}},
		"stream":   stream,
	})
	return call{method: http.MethodPost, url: s.env.EdgeURL + "/product/v1/ai/chat", bearer: s.env.AIKey, body: string(body)}
}

func (s *show) chat(ctx context.Context) error {
	s.sent("model sandbox: %q", question)
	a, err := s.do(ctx, s.ask(false))
	if err != nil {
		return err
	}
	var completion struct {
		Content string `json:"content"`
		Usage   *usage `json:"usage"`
	}
	if err := a.decode(http.StatusOK, &completion); err != nil {
		return err
	}
	s.expected[metricChat]++
	s.got(a.took, "%d", a.status)
	s.quoted(completion.Content)
	if strings.TrimSpace(completion.Content) == "" {
		return errEmpty
	}
	if err := completion.Usage.check(); err != nil {
		return err
	}
	s.fact("usage", "%v", completion.Usage)
	return nil
}

// shownDeltas bounds the number of lines shown of a long stream.
const shownDeltas = 12

func (s *show) stream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s.sent("the same question, with \"stream\": true")
	request, err := s.ask(true).request(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	response, err := s.http.Do(request)
	if err != nil {
		return unreachable(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // the status is enough
		return answer{status: response.StatusCode, body: body}.decode(http.StatusOK, nil)
	}
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return fmt.Errorf("the answer is %q, not an event stream", kind)
	}
	s.expected[metricChat]++
	s.got(time.Since(begun), "%d", response.StatusCode)
	s.fact("events", "as they arrive:")

	var t tally
	err = readEvents(response.Body, func(e event) error {
		at := time.Since(begun)
		text, err := t.add(e, at)
		if text != "" && t.deltas <= shownDeltas {
			s.Line("    %s %q", s.Faint(fmt.Sprintf("+%8s", span(at))), text)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.summary(&t)
}

func (s *show) summary(t *tally) error {
	if hidden := t.deltas - shownDeltas; hidden > 0 {
		s.Line("    %s", s.Faint(fmt.Sprintf("… and %d more, the last at +%s", hidden, span(t.last))))
	}
	if err := t.check(); err != nil {
		return err
	}
	s.fact("stream", "%d deltas, %d characters, the first after %s, finish_reason %s",
		t.deltas, len([]rune(t.content.String())), span(t.first), t.finish)
	s.fact("usage", "%v", t.usage)
	return nil
}

// tally adds up the events of a stream.
type tally struct {
	content     strings.Builder
	deltas      int
	first, last time.Duration
	finish      string
	usage       *usage
	done        bool
}

// add takes the next event and returns the text in it.
func (t *tally) add(e event, at time.Duration) (string, error) {
	switch {
	case t.done:
		return "", fmt.Errorf("data after [DONE]: %s", shorten(e.data, 200))
	case e.name == "error":
		return "", fmt.Errorf("the stream failed: %s", shorten(e.data, 300))
	case e.data == "[DONE]":
		t.done = true
		return "", nil
	}
	var delta struct {
		Content      string `json:"content"`
		FinishReason string `json:"finish_reason"`
		Usage        *usage `json:"usage"`
	}
	if err := json.Unmarshal([]byte(e.data), &delta); err != nil {
		return "", fmt.Errorf("an event is not a JSON object: %s", shorten(e.data, 200))
	}
	if delta.Content != "" {
		if t.deltas == 0 {
			t.first = at
		}
		t.deltas++
		t.last = at
		t.content.WriteString(delta.Content)
	}
	if delta.FinishReason != "" {
		t.finish = delta.FinishReason
	}
	if delta.Usage != nil {
		t.usage = delta.Usage
	}
	return delta.Content, nil
}

func (t *tally) check() error {
	switch {
	case t.content.Len() == 0:
		return errEmpty
	case t.finish == "":
		return errors.New("the stream has no finish_reason")
	case !t.done:
		return errors.New("the stream ended without [DONE]")
	}
	return t.usage.check()
}
