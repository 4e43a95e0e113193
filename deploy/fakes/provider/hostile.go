package provider

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/deploy/fakes/fault"
)

const (
	// hostileCalls is the number of tool calls in an answer with thousands of them.
	hostileCalls = 10_000
	// hostilePieces of four bytes each are 800 KB of arguments.
	hostilePieces = 200_000
	hostileDepth  = 100_000
	commentPause  = 50 * time.Millisecond
	maxComments   = 1000
)

// Behaviours returns those of the vendor, beside those of every fake.
func Behaviours() []fault.Behaviour {
	return slices.Concat(usageBehaviours(), toolBehaviours, streamBehaviours, formBehaviours)
}

// hostileAnswer is an answer in the format of the vendor that the request is for.
type hostileAnswer struct {
	text  string // "hostile" where empty
	usage string // every count; 1 where empty
	// calls returns the tool calls of a whole answer, events what a stream has between its
	// beginning and its end: the text where nil.
	calls  func(dialect) []string
	events func(dialect) string
	// after returns what is sent behind the end of a stream.
	after func(dialect) string
}

func (a hostileAnswer) act(x *fault.Exchange) {
	t := dialectOf(x.Request)
	text, usage := cmp.Or(a.text, "hostile"), t.count(cmp.Or(a.usage, "1"))
	if x.Streams() {
		x.Writer.Header().Set("Content-Type", t.mediaType())
		_, _ = io.WriteString(x.Writer, t.framed(a.stream(t, text, usage))) // the only error is a client that left
		return
	}
	var calls []string
	if a.calls != nil {
		calls = a.calls(t)
	}
	x.Writer.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(x.Writer, t.answer(text, calls, usage)) // as above
}

// stream returns the whole text of a stream.
func (a hostileAnswer) stream(t dialect, text, usage string) string {
	events, after := t.textEvent(text), ""
	if a.events != nil {
		events = a.events(t)
	}
	if a.after != nil {
		after = a.after(t)
	}
	return t.begin + events + t.endEvents(usage) + after
}

// behaviour returns a behaviour with the outcome [fault.Open].
func behaviour(name, effect string, a hostileAnswer) fault.Behaviour {
	return fault.Behaviour{Name: name, Effect: effect, Outcome: fault.Open, Act: a.act}
}

// usageBehaviours report impossible usage.
func usageBehaviours() (all []fault.Behaviour) {
	for _, u := range []struct{ name, effect, count string }{
		{"huge", "999,999,999,999 tokens of each kind for a short text", "999999999999"},
		{"beyond_64_bits", "2^64+1 tokens of each kind", "18446744073709551617"},
		{"infinite", "1e400 tokens of each kind", "1e400"},
		{"negative", "-5 tokens of each kind", "-5"},
		{"fraction", "1.5 tokens of each kind", "1.5"},
		{"text", "token counts that are texts", `"999999999999"`},
		{"null", "token counts that are null", "null"},
		{"nested", "token counts nested 1,000 deep", strings.Repeat("[", 1000) + strings.Repeat("]", 1000)},
	} {
		all = append(all, behaviour("usage_"+u.name, u.effect, hostileAnswer{usage: u.count}))
	}
	return all
}

// toolBehaviours request impossible tool calls.
var toolBehaviours = []fault.Behaviour{
	behaviour("tool_calls_many", "10,000 tool calls", hostileAnswer{
		calls: func(t dialect) []string {
			return eachCall(func(i int) string { return t.oneCall(strconv.Itoa(i), "b") })
		},
		events: func(t dialect) string {
			return strings.Join(eachCall(func(i int) string { return t.callEvent(strconv.Itoa(i)) + t.argumentsEvent(strconv.Itoa(i), "{}") }), "")
		},
	}),
	behaviour("tool_index_negative", "tool calls at index -1", atIndex("-1")),
	behaviour("tool_index_huge", "tool calls at index 1,000,000,000", atIndex("1000000000")),
	behaviour("tool_index_beyond_64_bits", "tool calls at index 2^64", atIndex("18446744073709551616")),
	behaviour("tool_index_text", "tool calls at an index that is a string", atIndex(`"one"`)),
	behaviour("tool_arguments_deep", "arguments of 100,000 nested arrays", arguments(strings.Repeat("[", hostileDepth)+strings.Repeat("]", hostileDepth))),
	behaviour("tool_arguments_many_pieces", "800 KB of arguments, streamed in pieces of four bytes", hostileAnswer{
		calls: func(t dialect) []string { return []string{t.oneCall("0", strings.Repeat("abcd", hostilePieces))} },
		events: func(t dialect) string {
			return t.callEvent("0") + strings.Repeat(t.argumentsEvent("0", "abcd"), hostilePieces)
		},
	}),
	behaviour("tool_arguments_interleaved", "the arguments of 1,000 calls by turns, in pieces of four bytes", hostileAnswer{
		events: func(t dialect) string {
			const calls, rounds = 1000, 20
			var begun, round strings.Builder
			for i := range calls {
				begun.WriteString(t.callEvent(strconv.Itoa(i)))
				round.WriteString(t.argumentsEvent(strconv.Itoa(i), "abcd"))
			}
			return begun.String() + strings.Repeat(round.String(), rounds)
		},
	}),
}

// eachCall returns a text for each of thousands of calls.
func eachCall(one func(int) string) []string {
	all := make([]string, 0, hostileCalls)
	for i := range hostileCalls {
		all = append(all, one(i))
	}
	return all
}

func atIndex(index string) hostileAnswer {
	plain := strings.Trim(index, `"`)
	return hostileAnswer{
		calls:  func(t dialect) []string { return []string{t.oneCall(plain, "b")} },
		events: func(t dialect) string { return replaceIndex(t.call, index) + replaceIndex(t.piece, index) },
	}
}

// replaceIndex replaces the index in an event, also with one that is no number; within an id it stays unchanged.
func replaceIndex(event, index string) string {
	event = strings.ReplaceAll(event, `_{index}"`, "_"+strings.Trim(index, `"`)+`"`)
	event = strings.ReplaceAll(event, `-{index}"`, "-"+strings.Trim(index, `"`)+`"`)
	return strings.NewReplacer("{index}", index, "{text}", "{}").Replace(event)
}

func arguments(text string) hostileAnswer {
	return hostileAnswer{
		calls:  func(t dialect) []string { return []string{t.oneCall("0", text)} },
		events: func(t dialect) string { return t.callEvent("0") + t.argumentsEvent("0", text) },
	}
}
