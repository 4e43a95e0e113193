package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
)

// sampler is a Sampler that keeps what it was asked.
type sampler struct {
	asked []*Asker
	terms []toolrule.Sampling
}

func (s *sampler) Sample(_ context.Context, a *Asker, server string, terms toolrule.Sampling, params json.RawMessage) (json.RawMessage, error) {
	s.asked, s.terms = append(s.asked, a), append(s.terms, terms)
	return json.RawMessage(`{"for":"` + server + `","params":` + string(params) + `}`), nil
}

func TestSample(t *testing.T) {
	c, w := open(t)
	x := execution{caller: c, request: request(Name{"files", "read"}, "{}"), server: w.servers[0]}
	terms := func(s toolrule.Sampling) {
		w.settings.Sampling = []toolrule.SamplingRule{{Servers: []string{"files"}, Sampling: s}}
		x.policy = w.policy()
	}
	s := &sampler{}
	c.Sampler = s
	for _, by := range []toolrule.SamplingBy{toolrule.SamplingByClient, toolrule.SamplingRefused} {
		terms(toolrule.Sampling{By: by})
		if _, err := x.sample(t.Context(), nil); len(s.asked) > 0 {
			t.Errorf("%s: was answered", by)
		} else {
			wants(t, err, "sampling_refused")
		}
	}
	terms(toolrule.Sampling{By: toolrule.SamplingByGateway, MaxRequests: 2, Model: "m", Tools: true})
	for range 2 {
		answer, err := x.sample(t.Context(), json.RawMessage(`{"maxTokens":1}`))
		if err != nil || string(answer) != `{"for":"files","params":{"maxTokens":1}}` {
			t.Fatalf("%s, %v", answer, err)
		}
	}
	if got := s.asked[0]; got.Run != "run-1" || got.Organization != "acme" || s.terms[0].Model != "m" || !s.terms[0].Tools {
		t.Errorf("%+v, %+v", got, s.terms[0])
	}
	_, err := x.sample(t.Context(), nil)
	wants(t, err, "sampling_refused")
	if len(s.asked) != 2 {
		t.Errorf("asked %d times", len(s.asked))
	}
	c.Sampler = nil
	x.sampled.Store(0)
	_, err = x.sample(t.Context(), nil)
	wants(t, err, "sampling_refused")
}

// A server learns what is wrong with its parameters, and nothing else.
func TestErrorsForServers(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int64
		text string
	}{
		{apierr.Invalid("params.maxTokens", "must be 1 or more"), wire.CodeInvalidParams, "params.maxTokens: must be 1 or more"},
		{apierr.Invalid("params", "must be an object").Wrap(errors.New("secret")), wire.CodeInvalidParams, "params: must be an object"},
		{apierr.Invalid("model", "is required"), -1, "the completion was refused"},
		{errSampledTooOften, -1, "the completion was refused"},
		{errors.New("secret"), -1, "the completion was refused"},
	} {
		if got := forServer(c.err); got.Code != c.code || got.Message != c.text || got.Data != nil {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
}
