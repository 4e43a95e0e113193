package definition

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

const (
	// maxServers is how many servers' definitions a Texts holds, maxTexts how many bytes of them.
	maxServers, maxTexts = 10_000, 64 << 20
)

// TextStore stores the texts of definitions.
type TextStore interface {
	// Texts returns the definitions that a server lists now, by their digests: of each its text, and who reviewed it.
	Texts(ctx context.Context, key toolserver.Key) (map[Digest]Text, error)
}

// Text is the text of a definition. ReviewedBy is who reviewed it last; empty before.
type Text struct {
	Definition json.RawMessage
	ReviewedBy string
}

// Texts completes entries with the texts of their definitions, and keeps those that were asked for last. Safe for
// concurrent use.
type Texts struct {
	store TextStore

	mu   sync.Mutex
	kept *simplelru.LRU[toolserver.Key, whole]
	size int
}

// whole are the definitions of an entry.
type whole struct {
	revision int64
	tools    []Reviewed
	size     int
}

// NewTexts returns a Texts that keeps nothing yet.
func NewTexts(store TextStore) *Texts {
	t := &Texts{store: store}
	t.kept, _ = simplelru.NewLRU(maxServers, func(_ toolserver.Key, dropped whole) { t.size -= dropped.size }) // Its size is right.
	return t
}

// Of returns the tools of an entry with their definitions, sorted by name, of each its digest, text, status and reviewer. A tool that
// is listed no longer, since the entry was made, is missing. Callers don't change the result.
func (t *Texts) Of(ctx context.Context, e *Entry) ([]Reviewed, error) {
	key := e.Server.Key()
	t.mu.Lock()
	kept, ok := t.kept.Get(key)
	t.mu.Unlock()
	if ok && kept.revision == e.Revision {
		return kept.tools, nil
	}
	texts, err := t.store.Texts(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read tool definitions: %w", err)
	}
	fresh := whole{revision: e.Revision}
	for i := range e.tools {
		tool := &e.tools[i]
		if text, ok := texts[tool.Digest]; ok {
			fresh.tools = append(fresh.tools, Reviewed{
				Definition: Definition{key, tool.Name, tool.Digest, text.Definition}, Status: tool.Status, ReviewedBy: text.ReviewedBy, Present: true,
			})
			fresh.size += len(text.Definition)
		}
	}
	t.keep(key, fresh)
	return fresh.tools, nil
}

func (t *Texts) keep(key toolserver.Key, fresh whole) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept.Remove(key)
	t.kept.Add(key, fresh)
	t.size += fresh.size
	for t.size > maxTexts && t.kept.Len() > 1 {
		t.kept.RemoveOldest()
	}
}
