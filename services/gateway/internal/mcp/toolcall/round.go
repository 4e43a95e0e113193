package toolcall

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/content/canonical"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
)

// Bounds of a call that takes several rounds.
const (
	// maxRounds is how often a call may be sent, and roundsTime how long after the first time.
	maxRounds  = 10
	roundsTime = 15 * time.Minute
	// maxState bounds the state of a server, in bytes.
	maxState = 64 << 10
	// maxInputs bounds the answers that a caller brings at once.
	maxInputs = 64
)

// claimTime bounds the use of Claims.
const claimTime = 500 * time.Millisecond

// roundPurpose binds the states that callers get to their use.
const roundPurpose = "round of a call of a tool server"

// Claims keeps which tickets were used, for those that are of use once; all replicas share it.
type Claims interface {
	// Claim marks a ticket as used until it expires. It reports false where it was used before.
	Claim(ctx context.Context, organization, id string, expires time.Time) (first bool, err error)
	// Unclaim takes that back, where nothing came of the use.
	Unclaim(ctx context.Context, organization, id string) error
}

// Errors of later rounds. The states of callers are refused with one and the same, whatever is wrong.
var (
	errState     = apierr.Invalid("params.requestState", "is none of this caller for this request, has expired, or was used before")
	errStateAway = apierr.Unavailable("it can't be checked at the moment whether the state was used before; nothing was sent to the server", nil)
	errTooLong   = misasked("the server asked for more than a call may take: 10 rounds, 15 minutes and 256 KiB")
)

// continuation is what a call of several rounds has beside others.
type continuation struct {
	// inputs and state are what the next round brings to the server; nil and empty for the first.
	inputs json.RawMessage
	state  string
	// last is the round before this one, whose state expires at lastExpires, where the request continues a call; nil for a
	// new call.
	last        *pending
	lastExpires time.Time
	// rounds counts those that were sent, of the whole call, and turns those of this request. sampled counts the
	// completions that the server asked for, of the whole call.
	rounds, turns int
	sampled       atomic.Int64
	// bound is the digest that all rounds have in common. broken reports that the call ended while the server waited for
	// an answer.
	bound  []byte
	broken bool
}

// pending is what one round of a call leaves for the next: it is sealed in the state that the caller brings back.
type pending struct {
	// ID is of use once; empty for an approval that is waited for, which is used up by itself.
	ID string `json:"i,omitempty"`
	// Binding is the digest of what the next round has to have in common with this one.
	Binding []byte `json:"b"`
	// Call and Request name the first round, Began is when it was, in seconds. Round counts those that were sent.
	Call    uuid.UUID `json:"c,omitzero"`
	Request string    `json:"r,omitempty"`
	Began   int64     `json:"t,omitempty"`
	Round   int       `json:"n,omitempty"`
	// Sampled counts the completions that were made for the server.
	Sampled int64 `json:"m,omitempty"`
	// Asked is what the caller was asked, Answers are what the gateway has answered itself, and State is the server's.
	Asked   []input.Request            `json:"q,omitempty"`
	Answers map[string]json.RawMessage `json:"a,omitempty"`
	State   string                     `json:"s,omitempty"`
	// Claim is the approval by which the call is made.
	Claim *claimed `json:"p,omitempty"`
	// Waits is the approval that the call waits for: nothing was sent yet.
	Waits string `json:"w,omitempty"`
}

// claimed is an approval that a call was sent with.
type claimed struct {
	ID      int64  `json:"i"`
	Ref     string `json:"r"`
	Attempt int    `json:"a"`
	Replica string `json:"p"`
}

// seals reports whether callers can be given states.
func (c *Caller) seals() bool { return c.Tickets != nil && c.Claims != nil }

// resume opens the state that the request brings. Whether it is this request's is found out by follows.
func (x *execution) resume() error {
	text := x.request.Client.State
	if text == "" { // Answers without a state are to nothing that was asked.
		return nil
	}
	if !x.caller.seals() {
		return errState
	}
	var last pending
	expires, err := x.caller.Tickets.Open(x.request.Organization, roundPurpose, text, &last)
	if err != nil {
		return errState
	}
	if last.Waits != "" {
		x.waited = &last
		return nil
	}
	x.last, x.lastExpires, x.rounds, x.state = &last, expires, last.Round, last.State
	x.sampled.Store(last.Sampled)
	return nil
}

// follows finds out whether the request continues the call whose state it brings, and reads the caller's answers.
func (x *execution) follows() error {
	x.bound = x.binding()
	before := cmp.Or(x.last, x.waited)
	if before == nil {
		return nil
	}
	if string(before.Binding) != string(x.bound) {
		return errState
	}
	answers, err := answersOf(before.Asked, x.request.Client.Inputs)
	if err != nil {
		return err
	}
	if x.waited != nil {
		x.declined = isDeclined(answers[approvalKey])
		return nil
	}
	x.inputs = merged(before.Asked, answers, before.Answers)
	if c := before.Claim; c != nil {
		x.approvalRef = c.Ref
		x.claim = &approval.Approval{ID: c.ID, Ref: c.Ref, Call: &approval.Execution{State: approval.Sent, Attempt: c.Attempt, Replica: c.Replica}}
	}
	return nil
}

// binding returns the digest of what all rounds of a call have in common: who calls in which run, and what, of a server at
// a place, by which definition.
func (x *execution) binding() []byte {
	r, s := x.request, x.server
	var known definition.Digest
	if x.definition != nil {
		known = x.definition.Digest
	}
	sum := canonical.Digest("round", []byte(cmp.Or(r.KeyTerms.Key, r.Key)), []byte(r.Service), []byte(r.User), []byte(r.Run),
		[]byte(x.path), []byte(x.method), []byte(s.Organization), []byte(s.ID), []byte(s.URL), []byte(s.Command),
		[]byte(x.tool), x.arguments, known[:])
	return sum[:]
}

// claimRound uses up the state of the round before. Nothing may be sent when it fails.
func (x *execution) claimRound(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	first, err := x.caller.Claims.Claim(ctx, x.request.Organization, x.last.ID, x.lastExpires)
	switch {
	case err != nil:
		return errStateAway.Wrap(err)
	case !first:
		return errState
	}
	return nil
}

// unclaimRound makes the state of the round before usable again, as nothing was sent.
func (x *execution) unclaimRound(ctx context.Context) {
	if x.last == nil || x.sent {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTime)
	defer cancel()
	if err := x.caller.Claims.Unclaim(ctx, x.request.Organization, x.last.ID); err != nil {
		x.caller.Log.WarnContext(ctx, "the state of a round could not be given back", slog.String("error", err.Error()))
	}
}

// began returns when the first round of the call was sent, or is about to be.
func (x *execution) began() time.Time {
	if x.last != nil {
		return time.Unix(x.last.Began, 0)
	}
	return x.ready
}

// left returns what this round leaves for the next one.
func (x *execution) left(put []input.Request, answers map[string]json.RawMessage, state string) *pending {
	p := &pending{
		ID: newID().String(), Binding: x.bound, Call: x.id, Request: x.request.RequestID, Began: x.began().Unix(), Round: x.rounds,
		Sampled: x.sampled.Load(), Answers: answers, State: state,
	}
	if x.last != nil {
		p.Call, p.Request = x.last.Call, x.last.Request
	}
	for i := range put {
		p.Asked = append(p.Asked, put[i].Brief())
	}
	if x.claim != nil {
		p.Claim = &claimed{x.claim.ID, x.claim.Ref, x.claim.Call.Attempt, x.claim.Call.Replica}
	}
	return p
}

// seal returns a result that asks the caller, with the state that it has to bring back.
func (x *execution) seal(p *pending, put []input.Request, expires time.Time) (json.RawMessage, error) {
	ticket, err := x.caller.Tickets.Seal(x.request.Organization, roundPurpose, p, expires)
	if err != nil {
		return nil, errTooLong.Wrap(err)
	}
	out := []byte(`{"resultType":"` + wire.ResultInputRequired + `"`)
	if len(put) > 0 {
		out = append(append(out, `,"inputRequests":`...), input.Encode(put)...)
	}
	out = jsontext.AppendText(append(out, `,"requestState":`...), ticket)
	return append(out, '}'), nil
}

// answersOf returns the caller's answers to what it was asked. What it was not asked is left out, and what is missing is
// for the server to ask again.
func answersOf(asked []input.Request, inputs json.RawMessage) (map[string]json.RawMessage, error) {
	if inputs == nil {
		return nil, nil
	}
	by := make(map[string]*input.Request, len(asked))
	for i := range asked {
		by[asked[i].Key] = &asked[i]
	}
	answers := make(map[string]json.RawMessage, len(asked))
	var wrong error
	count := 0
	if !wire.Members(inputs, func(key string, value []byte) bool {
		if count++; count > maxInputs {
			wrong = apierr.Invalid("params.inputResponses", "must have at most 64 answers")
		} else if r := by[key]; r != nil {
			answers[key], wrong = checked(r, value)
		}
		return wrong == nil
	}) {
		return nil, apierr.Invalid("params.inputResponses", "must be an object")
	}
	return answers, wrong
}

// checked returns an answer that follows the rules of its request.
func checked(r *input.Request, answer json.RawMessage) (json.RawMessage, error) {
	got, err := r.Check(answer)
	if refused, ok := errors.AsType[*input.Error](err); ok {
		field := "params.inputResponses"
		if !strings.ContainsAny(r.Key+refused.Field, " \t\r\n") { // Which may be of any letters.
			field += "." + r.Key + "." + refused.Field
		}
		return nil, apierr.Invalid(field, refused.Rule)
	}
	return got, err
}

// merged returns the answers of two kinds as one object, in the order in which the server can find them; nil for none.
func merged(asked []input.Request, answers, own map[string]json.RawMessage) json.RawMessage {
	out := []byte{'{'}
	add := func(key string, answer json.RawMessage) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsontext.AppendText(out, key), ':'), answer...)
	}
	for i := range asked {
		if answer := answers[asked[i].Key]; answer != nil {
			add(asked[i].Key, answer)
		}
	}
	for _, key := range sortedKeys(own) {
		add(key, own[key])
	}
	return append(out, '}')
}
