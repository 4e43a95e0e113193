package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/platform/apierr"
)

// sampler is a Sampler that keeps what it was asked.
type sampler struct {
	asked []*Asker
	terms []toolrule.Sampling
	err   error
}

func (s *sampler) Sample(_ context.Context, a *Asker, server string, terms toolrule.Sampling, params json.RawMessage) (json.RawMessage, error) {
	s.asked, s.terms = append(s.asked, a), append(s.terms, terms)
	return json.RawMessage(`{"for":"` + server + `","params":` + string(params) + `}`), s.err
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
	if got := s.asked[0]; got.Run != "run-1" || got.Organization != "acme" || got.RequestID != "r1-sampling-1" || s.terms[0].Model != "m" || !s.terms[0].Tools {
		t.Errorf("%+v, %+v", got, s.terms[0])
	}
	_, err := x.sample(t.Context(), nil)
	wants(t, err, "sampling_refused")
	if len(s.asked) != 2 {
		t.Errorf("asked %d times", len(s.asked))
	}
	if long := sampleID(strings.Repeat("r", 128), 10); len(long) != 128 || !strings.HasSuffix(long, "r-sampling-10") {
		t.Errorf("the id of a completion is %q", long)
	}
	c.Sampler = nil
	x.sampled.Store(0)
	_, err = x.sample(t.Context(), nil)
	wants(t, err, "sampling_refused")
}

// A server learns what is wrong with its parameters, and nothing else. Its caller learns that the server is wrong.
func TestErrorsOfSamples(t *testing.T) {
	c, w := open(t)
	w.settings.Sampling = []toolrule.SamplingRule{{Sampling: toolrule.Sampling{By: toolrule.SamplingByGateway, MaxRequests: 100}}}
	x := execution{caller: c, request: request(Name{"files", "read"}, "{}"), server: w.servers[0], policy: w.policy()}
	for _, tt := range []struct {
		err         error
		kind        apierr.Kind
		code        int64
		text, shown string
	}{
		{
			apierr.Invalid("params.maxTokens", "must be 1 or more"), apierr.KindUpstream,
			wire.CodeInvalidParams, "params.maxTokens: must be 1 or more", "the server asked for a completion in a wrong form: params.maxTokens: must be 1 or more",
		},
		{
			apierr.Invalid("params", "must be an object").Wrap(errors.New("secret")), apierr.KindUpstream,
			wire.CodeInvalidParams, "params: must be an object", "the server asked for a completion in a wrong form: params: must be an object",
		},
		{apierr.Invalid("model", "is required"), apierr.KindInvalid, -1, "the completion was refused", "model: is required"},
		{budget.ErrExceeded, apierr.KindForbidden, -1, "the completion was refused", budget.ErrExceeded.Text},
		{errors.New("secret"), apierr.KindInternal, -1, "the completion was refused", apierr.Internal(nil).Text},
	} {
		c.Sampler = &sampler{err: tt.err}
		_, err := x.sample(t.Context(), json.RawMessage("{}"))
		if e := apierr.From(err); e.Kind != tt.kind || e.Text != tt.shown {
			t.Errorf("%v: the caller gets %d %q, want %d %q", tt.err, e.Kind, e.Text, tt.kind, tt.shown)
		}
		if got := forServer(err); got.Code != tt.code || got.Message != tt.text || got.Data != nil {
			t.Errorf("%v: the server gets %+v", tt.err, got)
		}
	}
	if got := forServer(errSampledTooOften); got.Code != -1 || got.Message != "the completion was refused" {
		t.Errorf("%+v", got)
	}
}
