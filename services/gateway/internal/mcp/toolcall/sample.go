package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount"
)

// Sampler answers servers that ask for completions, by completions that the asker's organization pays; see
// sampling.Sampler.
type Sampler interface {
	// Sample returns the result for a server's parameters of sampling/createMessage. They are as they arrived, of any size
	// and form. The error is an *apierr.Error; one of the parameters names the field, such as params.maxTokens.
	Sample(ctx context.Context, a *Asker, server string, terms toolrule.Sampling, params json.RawMessage) (json.RawMessage, error)
}

// ReasonSamplingRefused is the reason of a refusal to answer a server that asks for a completion.
const ReasonSamplingRefused apierr.Reason = "sampling_refused"

// Refusals to answer a server that asks for a completion.
var (
	errSamplingRefused = denied(ReasonSamplingRefused, "the policy lets the gateway make no completions for this server")
	errSampledTooOften = denied(ReasonSamplingRefused, "the server asked for more completions in one call than the policy allows (tools.sampling: max_requests)")
)

// sample answers the server by a completion, if the policy lets the gateway do so. It counts them over all rounds of the
// call. It may be called by several goroutines at a time.
func (x *execution) sample(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	terms := x.policy.Rules.Sampling(x.server.ID)
	if terms.By != toolrule.SamplingByGateway || x.caller.Sampler == nil {
		return nil, errSamplingRefused
	}
	number := x.sampled.Add(1)
	if number > int64(terms.MaxRequests) {
		return nil, errSampledTooOften
	}
	asker := x.request.Asker
	asker.RequestID = sampleID(asker.RequestID, number)
	// The call of the tool counts, and not the completions that it asks for.
	answer, err := x.caller.Sampler.Sample(callcount.With(ctx, nil), &asker, x.server.ID, terms, params)
	if rule, found := brokenRule(err); found { // The caller's own parameters are in order.
		err = misasked("the server asked for a completion in a wrong form: " + rule).Wrap(err)
	}
	return answer, err
}

// brokenRule returns which parameter of a server breaks which rule; not found for another error.
func brokenRule(err error) (rule string, found bool) {
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.Kind != apierr.KindInvalid || !strings.HasPrefix(e.Text, "params") {
		return "", false
	}
	return e.Text, true
}

// sampleID returns the id of a call's completion, from which one sees the call's: the completion has a ledger row and a
// trace of its own.
func sampleID(call string, number int64) string {
	suffix := "-sampling-" + strconv.FormatInt(number, 10)
	return call[:min(len(call), maxRequestID-len(suffix))] + suffix
}

// maxRequestID bounds the ids of requests, in bytes, as they are looked up.
const maxRequestID = 128

// codeRejected is the code by which a server is answered that gets no completion.
const codeRejected = -1

// forServer returns an error of sample as the server gets it. A server learns what is wrong with its parameters, and
// nothing of the organization that it is not answered for.
func forServer(err error) *wire.Error {
	if rule, found := brokenRule(errors.Unwrap(err)); found {
		return &wire.Error{Code: wire.CodeInvalidParams, Message: rule}
	}
	return &wire.Error{Code: codeRejected, Message: "the completion was refused"}
}
