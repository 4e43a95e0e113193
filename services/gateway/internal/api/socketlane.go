package api

import (
	"context"
	"sync"
	"time"

	"switchyard.dev/services/gateway/internal/api/responses"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/bodymemory"
)

// Bounds of the requests that one connection holds.
const (
	// maxLanes is the number of lanes in which requests are served at the same time.
	maxLanes = 64
	// maxWaitingFrames is the number of requests that wait in one lane, besides the one that is served.
	maxWaitingFrames = 16
)

// lanes are the requests of a connection that wait or are served: those of a lane one after another, in the order of their
// arrival. Safe for concurrent use.
type lanes struct {
	// limit bounds the bytes of all requests together.
	limit int

	mu   sync.Mutex
	by   map[string]*lane
	held int
}

// lane is not empty: it is removed with its last request.
type lane struct {
	// requests are in order; the first one is being served.
	requests []request
	// response is the id of the response that is made, and end ends it; both are empty between two requests.
	response string
	end      context.CancelCauseFunc
}

// request is a frame that asks for a response, with the memory that it holds.
type request struct {
	responses.Frame

	memory bodymemory.Hold
}

func newLanes(limit int) *lanes { return &lanes{limit: limit, by: make(map[string]*lane)} }

// add adds a request to its lane, which then holds the memory. first reports whether the caller has to serve the lane,
// until next returns false.
func (l *lanes) add(f responses.Frame, memory *bodymemory.Hold) (first bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.by[f.Stream]
	switch {
	case l.held > 0 && l.held+len(f.Body) > l.limit:
		return false, tooMany("the requests of this connection that wait are too large together")
	case of == nil && len(l.by) == maxLanes:
		return false, tooMany("stream_id: this connection has 64 lanes in use")
	case of != nil && len(of.requests) > maxWaitingFrames:
		return false, tooMany("stream_id: 16 requests wait in this lane")
	}
	l.held += len(f.Body)
	asked := request{f, memory.Move()}
	if of == nil {
		l.by[f.Stream] = &lane{requests: []request{asked}}
		return true, nil
	}
	of.requests = append(of.requests, asked)
	return false, nil
}

// tooMany returns the refusal of a request that has no place.
func tooMany(text string) error {
	e := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, text+"; try again when others have ended")
	e.RetryAfter = time.Second
	return e
}

// first returns the request that a lane serves.
func (l *lanes) first(name string) responses.Frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[name].requests[0].Frame
}

// next removes the request that a lane served. It reports whether there is another one.
func (l *lanes) next(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.by[name]
	l.held -= len(of.requests[0].Body)
	of.requests[0].memory.Close()
	of.requests[0] = request{}
	of.requests, of.response, of.end = of.requests[1:], "", nil
	if len(of.requests) == 0 {
		delete(l.by, name)
		return false
	}
	return true
}

// close gives back the memory of the requests that are left when the connection has ended.
func (l *lanes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.by {
		for i := range of.requests {
			of.requests[i].memory.Close()
		}
	}
}

// serve sets what ends the request that a lane serves.
func (l *lanes) serve(name string, end context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by[name].end = end
}

// answer sets the id of the response that a lane makes.
func (l *lanes) answer(name, response string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by[name].response = response
}

// errCancelled is the cause of the end of a response that its client canceled.
var errCancelled = apierr.New(apierr.KindCanceled, "response_cancelled", "the response was cancelled")

// cancel ends the response that a message means: that with its id, or that of its lane. It does nothing where there is
// none: the response may have ended while the message was on its way.
func (l *lanes) cancel(f responses.Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, of := range l.by {
		meant := f.Response == "" && name == f.Stream || f.Response != "" && f.Response == of.response
		if meant && of.end != nil {
			of.end(errCancelled)
		}
	}
}
