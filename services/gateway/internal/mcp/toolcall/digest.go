package toolcall

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"switchyard.dev/services/gateway/internal/mcp/upstream"
)

// Listed is a kind of lists that callers may be notified of.
type Listed int

// The kinds, and how many there are. Resources are listed with their templates.
const (
	ListedTools Listed = iota
	ListedResources
	ListedPrompts

	Lists = 3
)

// Digest identifies what a caller would be answered of one kind by a server, or by all where server is empty. It is never
// 0. whole reports whether no server was missing.
func (c *Caller) Digest(ctx context.Context, a *Asker, server string, of Listed) (digest uint64, whole bool, err error) {
	h := sha256.New()
	switch of {
	case ListedTools:
		whole, err = c.digestTools(ctx, h, a, server)
	case ListedResources:
		if whole, err = c.digestOffers(ctx, h, a, server, upstream.Resources); err == nil && whole {
			whole, err = c.digestOffers(ctx, h, a, server, upstream.Templates)
		}
	case ListedPrompts:
		whole, err = c.digestOffers(ctx, h, a, server, upstream.Prompts)
	}
	return max(binary.BigEndian.Uint64(h.Sum(nil)), 1), whole, err
}

func (c *Caller) digestTools(ctx context.Context, h hash.Hash, a *Asker, server string) (whole bool, err error) {
	list, err := c.List(ctx, a, server)
	if err != nil {
		return false, err
	}
	for i := range list.Tools {
		add(h, []byte(list.Tools[i].Name), list.Tools[i].Definition)
	}
	return len(list.Unavailable) == 0, nil
}

func (c *Caller) digestOffers(ctx context.Context, h hash.Hash, a *Asker, server string, of upstream.Offer) (whole bool, err error) {
	offers, err := c.Offers(ctx, a, server, of)
	if err != nil {
		return false, err
	}
	add(h, []byte(of))
	for i := range offers.Items {
		add(h, []byte(offers.Items[i].Name), offers.Items[i].Text)
	}
	return len(offers.Unavailable) == 0, nil
}

// add adds texts to a hash, each with its length.
func add(h hash.Hash, texts ...[]byte) {
	for _, text := range texts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		_, _ = h.Write(size[:]) // A hash takes everything.
		_, _ = h.Write(text)
	}
}
