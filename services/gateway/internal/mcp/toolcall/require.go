package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/netguard"
)

// ReasonInputRefused is the reason of a call that ends because its server asked for what it may not ask for.
const ReasonInputRefused apierr.Reason = "input_refused"

// errUndeclared is the error of a server that asks for what it was not shown that it can ask for.
var errUndeclared = misasked("the server asked for what the caller does not offer, or the policy does not let through")

// errUnanswered is the error of a caller that answers a server's question with an error, which servers of the revision
// without sessions know no way to receive.
var errUnanswered = denied(ReasonInputRefused, "the caller refused to answer what the server asked")

// misasked returns an error of a server that asked for what it may not ask for.
func misasked(text string) *apierr.Error {
	return &apierr.Error{Kind: apierr.KindUpstream, Reason: ReasonInputRefused, Class: apierr.ClassPolicy, Text: text}
}

// statePause is how long a server that only wants to be asked again is left alone.
const statePause = time.Second

// Screen returns what a server's requests are held against by a policy.
func (p Policy) Screen(s *toolserver.Server) input.Screen {
	own := netguard.Origin(s.URL)
	return input.Screen{Server: s.ID, URL: func(origin string) bool { return origin != "" && origin == own || p.Rules.MayOpen(s.ID, origin) }}
}

// offered returns the capabilities that the server is shown: what the caller can do, as far as the policy lets it pass, and
// what the gateway answers itself; nil for none. Without states nothing could be asked.
func (x *execution) offered() json.RawMessage {
	if !x.caller.seals() || x.method == wire.MethodComplete {
		return nil
	}
	offer := input.Offer{Elicitation: true, Roots: true, Tasks: x.takesTask()}
	switch terms := x.policy.Rules.Sampling(x.server.ID); terms.By {
	case toolrule.SamplingByGateway:
		offer.Answered, offer.SamplingTools = x.caller.Sampler != nil, terms.Tools
	case toolrule.SamplingByClient:
		offer.Sampling, offer.SamplingTools = true, true
	case toolrule.SamplingRefused:
	}
	return input.Offered(x.request.Client.Capabilities, offer)
}

// require answers what the server asks for, as far as the gateway can, and reports whether the call goes on. Otherwise the
// result asks the caller.
func (x *execution) require(ctx context.Context, result *upstream.Result) (goesOn bool, err error) {
	requests, state, err := readRequired(result.Text)
	if err != nil {
		return false, err
	}
	if x.rounds >= maxRounds || time.Since(x.began()) >= roundsTime {
		return false, errTooLong
	}
	x.pause(ctx)
	put, answers, err := x.fulfil(ctx, requests)
	if err != nil {
		return false, err
	}
	if x.request.Client.comesAgain() && (len(put) > 0 || len(requests) == 0) {
		p := x.left(put, answers, state)
		text, err := x.seal(p, put, x.began().Add(roundsTime))
		result.Text = text
		return false, err
	}
	if err := x.put(ctx, put, answers); err != nil {
		return false, err
	}
	if len(requests) == 0 {
		sleep(ctx, statePause)
	}
	x.inputs, x.state = merged(nil, nil, answers), state
	return true, x.goOn(ctx)
}

// readRequired reads a result that requires input.
func readRequired(text json.RawMessage) (requests []input.Request, state string, err error) {
	var inputs json.RawMessage
	wire.Members(text, func(name string, value []byte) bool {
		switch name {
		case "inputRequests":
			inputs = value
		case "requestState":
			state, _ = wire.Text(value)
		}
		return true
	})
	if len(state) > maxState {
		return nil, "", errTooLong
	}
	if inputs != nil {
		if requests, err = input.Read(inputs); err != nil {
			return nil, "", refusedInput(err)
		}
	}
	return requests, state, nil
}

// refusedInput returns the error of a server's request that is not put to the caller.
func refusedInput(err error) error {
	if refused, ok := errors.AsType[*input.Error](err); ok {
		return misasked("the server asked for what it may not ask for: " + refused.Error())
	}
	return apierr.Internal(err)
}

// fulfil answers what the gateway answers itself, and returns the rest as it is put to the caller.
func (x *execution) fulfil(ctx context.Context, requests []input.Request) (put []input.Request, answers map[string]json.RawMessage, err error) {
	offered := x.offered()
	byGateway := x.policy.Rules.Sampling(x.server.ID).By == toolrule.SamplingByGateway
	for i := range requests { // Nothing is paid for before all of it may be asked.
		r := &requests[i]
		if !r.Able(offered) {
			return nil, nil, errUndeclared
		}
		if r.Method == wire.MethodSample && byGateway {
			continue
		}
		shown, err := r.Screen(x.screen())
		if err != nil {
			return nil, nil, refusedInput(err)
		}
		put = append(put, shown)
	}
	answers = make(map[string]json.RawMessage)
	for i := range requests {
		if r := &requests[i]; r.Method == wire.MethodSample && byGateway {
			if answers[r.Key], err = x.sample(ctx, r.Params); err != nil {
				return nil, nil, err
			}
		}
	}
	return put, answers, nil
}

// put puts requests to a caller whose request goes on, and adds its answers.
func (x *execution) put(ctx context.Context, put []input.Request, answers map[string]json.RawMessage) error {
	if len(put) == 0 {
		return nil
	}
	bounded, cancel := context.WithDeadline(ctx, x.began().Add(roundsTime))
	defer cancel()
	got, err := x.request.Client.Ask(bounded, put)
	if err != nil {
		if cause := ended(ctx); cause != nil {
			return cause
		}
		if _, refused := errors.AsType[*wire.Error](err); refused {
			return errUnanswered
		}
		return apierr.From(err)
	}
	for i := range put {
		if answer := got[put[i].Key]; answer != nil {
			if answers[put[i].Key], err = checked(&put[i], answer); err != nil {
				return err
			}
		}
	}
	return nil
}

// pause gives back what the call takes of its server's limits while it is not with the server.
func (x *execution) pause(ctx context.Context) {
	x.release(ctx)
	x.done = nil
	if x.booked != nil {
		x.booked.Settle(0)
		x.booked = nil
	}
}

// goOn makes every check again before the next round.
func (x *execution) goOn(ctx context.Context) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := x.again(ctx); err != nil {
		return err
	}
	if string(x.binding()) != string(x.bound) { // Another server, or another definition.
		return definition.ErrChanged
	}
	return x.limit(ctx)
}

// sleep waits for a time, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func sortedKeys(of map[string]json.RawMessage) []string { return slices.Sorted(maps.Keys(of)) }
