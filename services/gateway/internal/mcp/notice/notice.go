// Package notice says to callers that listen that the lists of what they may use have changed. It compares digests of
// the lists themselves, when a definition or a registration changes and once a minute, so that a notice means that
// another list would be answered: also where a rule, a level of trust or a server changed it. What a listener last knew
// fits in the id of an event, so that any replica goes on where another has ended. Package api/mcp listens for callers;
// toolcall.Caller answers the lists.
package notice

import (
	"context"
	"encoding/base64"
	"math/rand/v2"
	"sync"
	"time"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/fairshare"
)

// Bounds of streams on one replica, and times.
const (
	maxStreams, maxOrganization, maxPrincipal = 1000, 100, 10
	// checkers is how many listeners' lists are compared at once; checkShare is the percentage of these places that one
	// organization may hold.
	checkers, checkShare = 16, 25
	// hangAfter is the age of a comparison from which it counts as hanging: until it ends, no other listener of the
	// same organization and server starts one.
	hangAfter = 2 * time.Second
	// checkEvery is how often lists are compared without a change, more or less checkJitter; restEach is the least time
	// between two comparisons for one listener.
	checkEvery, checkJitter, restEach = time.Minute, 10 * time.Second, time.Second
	// life is how long a stream lasts; its caller begins another one.
	life = time.Hour
)

// ReasonTooManyStreams is the reason of the refusal of a stream.
const ReasonTooManyStreams apierr.Reason = "too_many_streams"

// ErrTooMany is the refusal of a stream.
var ErrTooMany = &apierr.Error{
	Kind: apierr.KindRateLimited, Reason: ReasonTooManyStreams, Class: apierr.ClassTransient, RetryAfter: 30 * time.Second,
	Text: "the organization or the caller has as many streams of notices as it may",
}

// Lists returns digests of lists.
type Lists interface {
	// Digest identifies a list of a caller. It reports false if a server is missing in it.
	Digest(ctx context.Context, a *toolcall.Asker, server string, of toolcall.Listed) (digest uint64, whole bool, err error)
}

// Admission decides who may listen; see admission.Controller.
type Admission interface {
	Admit(ctx context.Context, organization, run string, key keyterm.Terms) (admission.Grant, error)
}

// State are the digests of lists that a listener knows, by toolcall.Listed; 0 is unknown.
type State [toolcall.Lists]uint64

// ID returns the state as the id of an event.
func (s State) ID() string {
	text := make([]byte, 0, 8*len(s))
	for _, digest := range s {
		for shift := 56; shift >= 0; shift -= 8 {
			text = append(text, byte(digest>>shift))
		}
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParseID returns the state in the id of an event; the zero State for any other text.
func ParseID(id string) (s State) {
	if len(id) != base64.RawURLEncoding.EncodedLen(8*len(s)) {
		return s
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil {
		return s
	}
	for i, b := range text {
		s[i/8] = s[i/8]<<8 | uint64(b)
	}
	return s
}

// Listener is a caller that listens.
type Listener struct {
	Asker *toolcall.Asker
	// Server is empty for the lists of all servers.
	Server string
	// Of are the lists whose changes are of interest.
	Of []toolcall.Listed
	// Known is what the caller knew when it last listened.
	Known State
	// Begin is called once, before lists are compared. Learned, if not nil, is called with the new state when a
	// comparison adds digests that were unknown. Changed is called for each list that has changed, with the state
	// afterwards.
	Begin   func()
	Learned func(State)
	Changed func(toolcall.Listed, State)
}

// Hub holds the streams of a replica. Safe for concurrent use.
type Hub struct {
	lists     Lists
	admission Admission
	random    func() float64 // spreads the comparisons of streams
	checking  *fairshare.Places
	ended     chan struct{}

	mu      sync.Mutex
	moved   chan struct{} // closed at a change, and replaced
	drained bool
	streams int
	counts  map[string]int // by organization, and by principal
	// comparing holds, by organization and server, when the tracked comparison began: one that started while no other
	// was tracked.
	comparing map[subject]time.Time
}

// subject is whose lists a comparison reads, and at which server.
type subject struct{ organization, server string }

// NewHub returns a Hub without streams.
func NewHub(lists Lists, admission Admission) *Hub {
	return &Hub{
		lists: lists, admission: admission, random: rand.Float64, checking: fairshare.NewPlaces(checkers, checkShare), ended: make(chan struct{}),
		moved: make(chan struct{}), counts: make(map[string]int), comparing: make(map[subject]time.Time),
	}
}

// Changed makes all lists be compared: a definition or a registration has changed.
func (h *Hub) Changed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.moved)
	h.moved = make(chan struct{})
}

// Drain ends all streams, and refuses others. It is a step of the service's lifecycle.
func (h *Hub) Drain(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.drained {
		h.drained = true
		close(h.ended)
	}
	return nil
}

// names returns the names under which a listener is counted.
func (l *Listener) names() (organization, principal string) {
	a := l.Asker
	return a.Organization, a.Organization + "\x00" + a.Key + "\x00" + a.Service + "\x00" + a.User
}

// enter counts a stream.
func (h *Hub) enter(l *Listener) error {
	organization, principal := l.names()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.drained:
		return apierr.Unavailable("the replica stops", nil)
	case h.streams >= maxStreams || h.counts[organization] >= maxOrganization || h.counts[principal] >= maxPrincipal:
		return ErrTooMany
	}
	h.streams++
	h.counts[organization]++
	h.counts[principal]++
	return nil
}

func (h *Hub) leave(l *Listener) {
	organization, principal := l.names()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams--
	for _, name := range []string{organization, principal} {
		if h.counts[name]--; h.counts[name] == 0 {
			delete(h.counts, name)
		}
	}
}

func (h *Hub) signal() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.moved
}

// Listen calls the listener back until its request ends, the replica drains or the stream is as old as it may be, which
// return nil, or until the listener may no longer listen: an *apierr.Error, as for one that may not begin.
func (h *Hub) Listen(ctx context.Context, l *Listener) error {
	if err := h.enter(l); err != nil {
		return err
	}
	defer h.leave(l)
	grant, err := h.admission.Admit(ctx, l.Asker.Organization, l.Asker.Run, l.Asker.KeyTerms)
	if err != nil {
		return err
	}
	defer grant.End(false)
	ctx, cancel := context.WithTimeout(grant.Context(), life)
	defer cancel()
	moved := h.signal()
	l.Begin()
	state := l.announce(l.Known, h.compare(ctx, l, l.Known), closed(moved))
	for h.wait(ctx, moved) {
		moved = h.signal()
		state = l.announce(state, h.compare(ctx, l, state), false)
	}
	if cause := admission.Termination(ctx); cause != nil {
		return cause
	}
	return nil
}

// wait returns when it is time to compare lists. It reports false when the stream ends.
func (h *Hub) wait(ctx context.Context, moved <-chan struct{}) bool {
	if !h.sleep(ctx, restEach, nil) {
		return false
	}
	return h.sleep(ctx, checkEvery+time.Duration((2*h.random()-1)*float64(checkJitter)), moved)
}

// sleep waits for a time, or for a change. It reports false when the stream ends.
func (h *Hub) sleep(ctx context.Context, span time.Duration, moved <-chan struct{}) bool {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-h.ended:
		return false
	case <-moved:
	case <-timer.C:
	}
	return true
}

func closed(moved <-chan struct{}) bool {
	select {
	case <-moved:
		return true
	default:
		return false
	}
}

// compare returns the lists' current digests. A list that can't be read in full keeps its known digest. All lists do if
// no place is free in time, or while another listener's comparison hangs at the server.
func (h *Hub) compare(ctx context.Context, l *Listener, known State) State {
	waiting, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	release, err := h.checking.Acquire(waiting, l.Asker.Organization)
	if err != nil {
		return known
	}
	defer release()
	about := subject{l.Asker.Organization, l.Server}
	first, hangs := h.compares(about)
	if hangs {
		return known
	}
	if first {
		defer h.compared(about)
	}
	for _, of := range l.Of {
		if digest, whole, err := h.lists.Digest(ctx, l.Asker, l.Server, of); err == nil && whole {
			known[of] = digest
		}
	}
	return known
}

// compares records the start of a comparison. first reports whether no comparison of the subject is tracked yet, so
// that this one is; hangs reports whether the tracked one hangs.
func (h *Hub) compares(about subject) (first, hangs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	since, other := h.comparing[about]
	if !other {
		h.comparing[about] = time.Now()
	}
	return !other, other && time.Since(since) >= hangAfter
}

func (h *Hub) compared(about subject) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.comparing, about)
}

// announce calls Learned if the listener learns digests, and Changed for each list whose known digest differs now. It
// returns the new state. If moved, it also calls Changed for lists that were unknown, because they may have changed
// since the stream began.
func (l *Listener) announce(before, now State, moved bool) State {
	after := before.or(now)
	if after != before && l.Learned != nil {
		l.Learned(after)
	}
	for _, of := range l.Of {
		if after[of] != now[of] || moved && before[of] == 0 && now[of] != 0 {
			after[of] = now[of]
			l.Changed(of, after)
		}
	}
	return after
}

// or returns the state with what is unknown from another one.
func (s State) or(other State) State {
	for i, digest := range s {
		if digest == 0 {
			s[i] = other[i]
		}
	}
	return s
}
