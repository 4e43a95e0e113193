package api

import (
	"context"
	"sync"
	"time"

	"switchyard.dev/services/gateway/internal/api/responses"
	"switchyard.dev/services/platform/apierr"
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
	// frames are the requests; the first one is being served.
	frames []responses.Frame
	// response is the id of the response that is made, and end ends it; both are empty between two requests.
	response string
	end      context.CancelCauseFunc
}

func newLanes(limit int) *lanes { return &lanes{limit: limit, by: make(map[string]*lane)} }

// add adds a request to its lane. first reports whether the caller has to serve the lane, until next returns false.
func (l *lanes) add(f responses.Frame) (first bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.by[f.Stream]
	switch {
	case l.held > 0 && l.held+len(f.Body) > l.limit:
		return false, tooMany("the requests of this connection that wait are too large together")
	case of == nil && len(l.by) == maxLanes:
		return false, tooMany("stream_id: this connection has 64 lanes in use")
	case of != nil && len(of.frames) > maxWaitingFrames:
		return false, tooMany("stream_id: 16 requests wait in this lane")
	}
	l.held += len(f.Body)
	if of == nil {
		l.by[f.Stream] = &lane{frames: []responses.Frame{f}}
		return true, nil
	}
	of.frames = append(of.frames, f)
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
	return l.by[name].frames[0]
}

// next removes the request that a lane served. It reports whether there is another one.
func (l *lanes) next(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.by[name]
	l.held -= len(of.frames[0].Body)
	of.frames[0] = responses.Frame{}
	of.frames, of.response, of.end = of.frames[1:], "", nil
	if len(of.frames) == 0 {
		delete(l.by, name)
		return false
	}
	return true
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
