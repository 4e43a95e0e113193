package provider

import (
	"bufio"
	"cmp"
	"io"
	"iter"
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
	// blockSize is how much of a long stream is made and sent at once, in bytes.
	blockSize = 64 << 10
)

// Behaviours returns those of the vendor, beside those of every fake.
func Behaviours() []fault.Behaviour {
	return slices.Concat(usageBehaviours(), toolBehaviours, streamBehaviours, formBehaviours)
}

// hostileAnswer is an answer in the format of the vendor that the request is for.
type hostileAnswer struct {
	text  string // "hostile" where empty
	usage string // every count; 1 where empty
	// calls returns the tool calls of a whole answer. events returns a stream's events between its first and its last, as
	// texts of whole events; if nil, the stream has the text.
	calls  func(dialect) []string
	events func(dialect) iter.Seq[string]
	// after returns what follows the end of a stream.
	after func(dialect) string
}

func (a hostileAnswer) act(x *fault.Exchange) {
	t := dialectOf(x.Request)
	text, usage := cmp.Or(a.text, "hostile"), t.count(cmp.Or(a.usage, "1"))
	if x.Streams() {
		x.Writer.Header().Set("Content-Type", t.mediaType())
		a.stream(t, x.Writer, text, usage)
		return
	}
	var calls []string
	if a.calls != nil {
		calls = a.calls(t)
	}
	x.Writer.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(x.Writer, t.answer(text, calls, usage)) // as above
}

// stream writes a streamed answer in pieces, because the process stands still while a text of 50 MB is copied.
func (a hostileAnswer) stream(t dialect, w io.Writer, text, usage string) {
	events := once(t.textEvent(text))
	if a.events != nil {
		events = a.events(t)
	}
	end := t.endEvents(usage)
	if a.after != nil {
		end += a.after(t)
	}
	out := bufio.NewWriterSize(w, blockSize)
	for piece := range concat(once(t.begin), events, once(end)) {
		if _, err := out.WriteString(t.framed(piece)); err != nil { // The client left.
			return
		}
	}
	_ = out.Flush() // as above
}

// once returns a sequence of one text.
func once(text string) iter.Seq[string] { return slices.Values([]string{text}) }

// repeated returns a sequence that holds a text n times, joined to blocks of about blockSize bytes.
func repeated(text string, n int) iter.Seq[string] {
	return func(yield func(string) bool) {
		most := max(blockSize/max(len(text), 1), 1)
		block := strings.Repeat(text, min(most, n))
		for left := n; left > 0; left -= most {
			if !yield(block[:min(most, left)*len(text)]) {
				return
			}
		}
	}
}

// concat returns a sequence of all texts of the first sequence, then of the second, and so on.
func concat(all ...iter.Seq[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, texts := range all {
			for text := range texts {
				if !yield(text) {
					return
				}
			}
		}
	}
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
		events: func(t dialect) iter.Seq[string] {
			return slices.Values(eachCall(func(i int) string { return t.callEvent(strconv.Itoa(i)) + t.argumentsEvent(strconv.Itoa(i), "{}") }))
		},
	}),
	behaviour("tool_index_negative", "tool calls at index -1", atIndex("-1")),
	behaviour("tool_index_huge", "tool calls at index 1,000,000,000", atIndex("1000000000")),
	behaviour("tool_index_beyond_64_bits", "tool calls at index 2^64", atIndex("18446744073709551616")),
	behaviour("tool_index_text", "tool calls at an index that is a string", atIndex(`"one"`)),
	behaviour("tool_arguments_deep", "arguments of 100,000 nested arrays", arguments(strings.Repeat("[", hostileDepth)+strings.Repeat("]", hostileDepth))),
	behaviour("tool_arguments_many_pieces", "800 KB of arguments, streamed in pieces of four bytes", hostileAnswer{
		calls: func(t dialect) []string { return []string{t.oneCall("0", strings.Repeat("abcd", hostilePieces))} },
		events: func(t dialect) iter.Seq[string] {
			return concat(once(t.callEvent("0")), repeated(t.argumentsEvent("0", "abcd"), hostilePieces))
		},
	}),
	behaviour("tool_arguments_interleaved", "the arguments of 1,000 calls by turns, in pieces of four bytes", hostileAnswer{
		events: func(t dialect) iter.Seq[string] {
			const calls, rounds = 1000, 20
			var begun, round strings.Builder
			for i := range calls {
				begun.WriteString(t.callEvent(strconv.Itoa(i)))
				round.WriteString(t.argumentsEvent(strconv.Itoa(i), "abcd"))
			}
			return concat(once(begun.String()), repeated(round.String(), rounds))
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
		calls: func(t dialect) []string { return []string{t.oneCall(plain, "b")} },
		events: func(t dialect) iter.Seq[string] {
			return once(replaceIndex(t.call, index) + replaceIndex(t.piece, index))
		},
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
		events: func(t dialect) iter.Seq[string] { return once(t.callEvent("0") + t.argumentsEvent("0", text)) },
	}
}
