package quota

import "math"

// Load is how a subject stands, as far as the replica knows.
type Load struct {
	// Free is the part of the limit that is free, from 0 to 1.
	Free float64
	// InFlight is the worst case of this replica's calls in flight, in parts of the limit.
	InFlight float64
}

// Load estimates how a subject stands, for ranking alternatives. A subject without entries is free.
func (b *Books) Load(s Subject) Load {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[s]
	if a == nil {
		return Load{Free: 1}
	}
	now := b.now()
	if a.outside.blocked(now) > 0 {
		return Load{InFlight: a.flying()}
	}
	used := a.view.used(now.Unix()).plus(a.alone.used(now.Unix()))
	free := 1.0
	if l := a.outside.believed(a.limit.Tokens, now); a.limit.Tokens > 0 {
		free = 1 - float64(used.Tokens+a.outside.unseen(now))/float64(l)
	}
	if l := a.outside.believed(a.limit.Requests, now); a.limit.Requests > 0 {
		free = min(free, 1-float64(used.Requests)/float64(l))
	}
	return Load{Free: math.Max(0, free), InFlight: a.flying()}
}

// flying returns the worst case in flight in parts of the limit.
func (a *account) flying() float64 {
	switch l := a.limit; {
	case l.Tokens > 0:
		return float64(a.inflight.Tokens) / float64(l.Tokens)
	case l.Requests > 0:
		return float64(a.inflight.Requests) / float64(l.Requests)
	case l.Concurrent > 0:
		return float64(a.inflight.Requests) / float64(l.Concurrent)
	}
	return 0
}

// Waiting returns how many callers wait on this replica.
func (b *Books) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

// Shared reports whether the replica uses the shared books; otherwise it keeps to its part of every limit.
func (b *Books) Shared() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shared
}
