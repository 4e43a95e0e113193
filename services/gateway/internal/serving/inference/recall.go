package inference

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Answers is a cache of whole answers; see package cache.
type Answers interface {
	Get(ctx context.Context, scope cache.Scope, request []byte) ([]byte, cache.Key)
	Put(ctx context.Context, p cache.Key, answer []byte, ttl time.Duration)
}

// kept is an answer in the response cache.
type kept struct {
	Text         string                `json:"text,omitzero"`
	Reasoning    string                `json:"reasoning,omitzero"`
	ToolCalls    []provider.ToolCall   `json:"tool_calls,omitzero"`
	Citations    []provider.Citation   `json:"citations,omitzero"`
	Images       []string              `json:"images,omitzero"`
	FinishReason provider.FinishReason `json:"finish_reason"`
	// RequestID is the id of the request that the answer was made for.
	RequestID string         `json:"request_id,omitzero"`
	Usage     provider.Usage `json:"usage"`
	State     ledger.State   `json:"usage_state"`
	// Native is a vendor's whole answer, Frames its stream, both as a face of that dialect relays them. A request in no
	// dialect has neither, and is answered from the fields above whole or as a stream.
	Native json.RawMessage  `json:"native,omitzero"`
	Frames []provider.Event `json:"frames,omitzero"`
}

// recalled is the state of the response cache for a request.
type recalled struct {
	// cacheKey is the key under which the cache may keep the answer, for ttl; zero for an answer that is not to be kept.
	cacheKey cache.Key
	ttl      time.Duration
	// hit reports whether the answer came from the cache.
	hit bool
}

// meaning is everything that determines an answer. Equal requests have the same.
type meaning struct {
	Provider, Model string
	Chat            provider.Chat
	Native          map[string]json.RawMessage
	Frames          bool
}

// recall returns the cached answer to the same request; nil for a miss. After a miss the answer may be stored at
// x.cacheKey.
func (x *execution) recall(ctx context.Context, stream bool) *kept {
	first, request := x.candidates[0], x.request
	ttl := x.fleet.cacheTTL(request.Organization)
	if x.engine.Answers == nil || ttl == 0 || request.BypassCache || request.ApprovalRef != "" || request.Relay != nil {
		return nil
	}
	scope := cache.Scope{Organization: request.Organization, Credential: first.credential.Source}
	if scope.Credential != credentialFleet {
		if first.credential.Fingerprint == "" {
			return nil // It is unknown whose key it is.
		}
		scope.Credential += " " + first.credential.Fingerprint
	}
	asked, ok := request.meaning(first, stream)
	if !ok {
		return nil
	}
	text, key := x.engine.Answers.Get(ctx, scope, asked)
	x.cacheKey, x.ttl = key, ttl
	if text == nil {
		return nil
	}
	if x.hold.Charge(len(text)) != nil {
		x.cacheKey = cache.Key{} // The vendor's answer needs as much memory; it is not cached too.
		return nil
	}
	var answer kept
	if err := json.Unmarshal(text, &answer); err != nil {
		x.engine.Log.WarnContext(ctx, "a cached answer could not be decoded", slog.String("error", err.Error()))
		return nil
	}
	x.served, x.hit = first, true
	x.record.cached(answer.RequestID)
	return &answer
}

// credentialFleet is the source of keys that organizations share.
const credentialFleet = "fleet"

// meaning returns false for a request whose answer may change although the request does not: one with an image or a document at
// a URL.
func (r *Request) meaning(c candidate, stream bool) ([]byte, bool) {
	m := meaning{Provider: c.Provider, Model: c.Upstream, Chat: r.Chat}
	for _, message := range m.Chat.Messages {
		for _, part := range message.Content {
			if part.ImageURL != "" && !strings.HasPrefix(part.ImageURL, "data:") {
				return nil, false
			}
			if part.File != nil && !strings.HasPrefix(part.File.URL, dataScheme) {
				return nil, false
			}
		}
	}
	if native := m.Chat.Native; native != nil {
		if json.Unmarshal(native.Body, &m.Native) != nil {
			return nil, false
		}
		for _, field := range []string{"model", "stream", "stream_options"} {
			delete(m.Native, field) // They determine how it is asked for, not what.
		}
		m.Chat.Native = &provider.Native{Dialect: native.Dialect, Headers: native.Headers}
		m.Frames = stream
	}
	m.Chat.Model = ""
	text, err := json.Marshal(m)
	return text, err == nil
}

// remember caches a whole answer of the first candidate.
func (x *execution) remember(ctx context.Context, answer kept) {
	if x.cacheKey == (cache.Key{}) || x.hit || x.served.Target != x.candidates[0].Target || answer.FinishReason == provider.FinishContentFilter {
		return
	}
	answer.RequestID = x.request.ID
	text, err := json.Marshal(answer)
	if err != nil {
		x.engine.Log.WarnContext(ctx, "an answer could not be encoded for the cache", slog.String("error", err.Error()))
		return
	}
	x.engine.Answers.Put(ctx, x.cacheKey, text, x.ttl)
}

// replay returns an answer from the cache. Its ledger row costs nothing.
func (x *execution) replay(ctx context.Context, answer *kept) (*Completion, error) {
	if err := x.tools.approveAnswer(ctx, answer.ToolCalls, answer.Native); err != nil {
		x.record.failed(err)
		x.settle(ctx, ledger.OutcomeAborted, answer.tally())
		return nil, err
	}
	x.record.answered(trace.Answer{Text: answer.Text, ToolCalls: answer.ToolCalls, FinishReason: answer.FinishReason})
	return &Completion{
		Text: answer.Text, Reasoning: answer.Reasoning, ToolCalls: answer.ToolCalls, FinishReason: answer.FinishReason,
		Citations: answer.Citations, Images: answer.Images,
		Report: x.settle(ctx, ledger.OutcomeCompleted, answer.tally()), Native: answer.Native, Route: x.route(), record: x.record,
	}, nil
}

func (k *kept) tally() tally { return tally{usage: &k.Usage, state: k.State} }

// replayStream streams an answer from the cache: the frames as they arrived, or all at once.
func (x *execution) replayStream(ctx context.Context, answer *kept) *Stream {
	s := &Stream{
		release: func() {}, route: x.route(), approvals: x.tools.newCheck(x.hold),
		incoming: incoming{x: x, ctx: ctx, held: answer.Frames, tally: answer.tally(), finish: answer.FinishReason, calls: len(answer.ToolCalls) > 0, ended: true},
	}
	for i := range answer.ToolCalls {
		answer.ToolCalls[i].Index = i // A whole answer has no indexes.
	}
	event := provider.Event{
		Text: answer.Text, Reasoning: answer.Reasoning, ToolCalls: answer.ToolCalls, Citations: answer.Citations, Images: answer.Images,
	}
	if s.held == nil && event.Shown() {
		s.held = []provider.Event{event}
	}
	return s
}

// recording joins a stream's events, for the cache.
type recording struct {
	text, reasoning strings.Builder
	calls           callJoiner
	citations       []provider.Citation
	images          []string
	frames          []provider.Event
	size            int
}

// recorded returns how many bytes keeping an event takes.
func recorded(e provider.Event) int {
	if e.Native != nil {
		return heldSize(e)
	}
	return len(e.Text) + len(e.Reasoning) + callBytes(e.ToolCalls) + provider.CitationBytes(e.Citations) + pictureBytes(e.Images)
}

// add keeps an event. It copies the native frame, which is valid only until the next event.
func (r *recording) add(e provider.Event) {
	r.size += recorded(e)
	if r.size > cache.MaxAnswer {
		*r = recording{size: r.size} // Too large to keep.
		return
	}
	if e.Native != nil {
		e.Native = bytes.Clone(e.Native)
		r.frames = append(r.frames, e)
		return
	}
	_, _ = r.text.WriteString(e.Text)
	_, _ = r.reasoning.WriteString(e.Reasoning)
	r.citations, r.images = append(r.citations, e.Citations...), append(r.images, e.Images...)
	for _, delta := range e.ToolCalls {
		r.calls.add(delta)
	}
}

// keep stores a stream's answer in the cache once it is complete.
func (s *Stream) keep() {
	if r := s.recording; r != nil && r.size <= cache.MaxAnswer {
		s.x.remember(s.ctx, kept{
			Text: r.text.String(), Reasoning: r.reasoning.String(), ToolCalls: r.calls.join(), FinishReason: s.FinishReason(),
			Citations: r.citations, Images: r.images,
			Usage: s.report.Usage, State: s.x.billed.state, Frames: r.frames,
		})
	}
}
