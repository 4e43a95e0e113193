package routing

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// mix spreads a hash over all bits (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// maxPrefix is how many bytes of the first message count for an affinity: vendors cache prompts from their beginning,
// and what is new in a request is at its end.
const maxPrefix = 1024

// Affinity returns the affinity of a chat: equal for requests of one run, or without a run for requests that begin
// alike (system prompt, tools, the beginning of the first message), each within its organization. It is never 0.
func Affinity(organization, run string, chat *provider.Chat) uint64 {
	var d xxhash.Digest
	d.Reset()
	write := func(text string) {
		_, _ = d.WriteString(text)
		_, _ = d.WriteString("\x00")
	}
	write(organization)
	write(run)
	if run == "" {
		for i := range chat.Tools {
			write(chat.Tools[i].Name)
			write(chat.Tools[i].Description)
			_, _ = d.Write(chat.Tools[i].Parameters)
		}
		for i := range chat.Messages {
			text := chat.Messages[i].Text()
			if chat.Messages[i].Role == provider.RoleSystem {
				write(text)
				continue
			}
			write(text[:min(len(text), maxPrefix)])
			break
		}
	}
	return max(d.Sum64(), 1)
}

// ChatNeeds returns what a chat requires of a model.
func ChatNeeds(chat *provider.Chat) Needs {
	n := Needs{Tools: len(chat.Tools) > 0, Output: chat.MaxTokens, Reasoning: chat.Reasoning != nil && chat.Reasoning.Required}
	size := len(chat.ResponseFormat)
	for i := range chat.Messages {
		m := &chat.Messages[i]
		for j := range m.Content {
			size += len(m.Content[j].Text)
			n.Vision = n.Vision || m.Content[j].ImageURL != ""
		}
		for j := range m.ToolCalls {
			size += len(m.ToolCalls[j].Name) + len(m.ToolCalls[j].Arguments)
		}
		n.Tools = n.Tools || len(m.ToolCalls) > 0
		n.ParallelTools = n.ParallelTools || len(m.ToolCalls) > 1
	}
	for i := range chat.Tools {
		size += len(chat.Tools[i].Name) + len(chat.Tools[i].Description) + len(chat.Tools[i].Parameters)
	}
	n.Context = tokens(size)
	if len(chat.ResponseFormat) > 0 {
		var format struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal(chat.ResponseFormat, &format) // The face has checked it.
		n.JSON, n.JSONSchema = format.Type == "json_object", format.Type == "json_schema"
	}
	return n
}

// EmbeddingNeeds returns what an embedding requires of a model. The model's limit applies to each input alone, so the
// longest one counts.
func EmbeddingNeeds(e *provider.Embedding) Needs {
	n := Needs{Dimensions: e.Dimensions}
	for _, input := range e.Input {
		n.Context = max(n.Context, tokens(len(input)))
	}
	for _, input := range e.Tokens {
		n.Tokens = max(n.Tokens, len(input))
	}
	n.Context = max(n.Context, n.Tokens)
	return n
}

// ImageNeeds returns what a request for images requires of a model.
func ImageNeeds(d *provider.ImageRequest) Needs {
	return Needs{Context: tokens(len(d.Prompt)), Images: d.Count, Size: d.Size}
}

// RelayNeeds returns what a relayed call requires of a model.
func RelayNeeds(call *provider.Relay) Needs {
	return Needs{Context: int(call.Estimate.Prompt()), Relay: call.API, Usage: call.Estimate}
}

// tokens estimates the tokens of a text by its bytes.
func tokens(size int) int { return int(provider.Estimate(size, 0).Input) }

// AffinityTable remembers which target an affinity was last sent to, where the vendor's prompt cache is warm. It has a
// fixed number of slots; an affinity replaces the one that was in its slot. It is safe for concurrent use.
type AffinityTable struct {
	mu    sync.Mutex
	slots []slot
}

type slot struct {
	affinity uint64
	target   provider.Target
	at       time.Time
}

// affinitySlots is how many affinities are remembered, about a megabyte.
const affinitySlots = 1 << 14

// NewAffinityTable returns an empty table.
func NewAffinityTable() *AffinityTable { return &AffinityTable{slots: make([]slot, affinitySlots)} }

func (w *AffinityTable) last(affinity uint64) (provider.Target, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := &w.slots[affinity%affinitySlots]; s.affinity == affinity {
		return s.target, s.at
	}
	return provider.Target{}, time.Time{}
}

func (w *AffinityTable) note(affinity uint64, target provider.Target, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots[affinity%affinitySlots] = slot{affinity, target, at}
}
