package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// small is the size up to which a body needs no place: as much as a connection
// may take up in headers.
const small = 64 << 10

// body is a request body, read in whole.
type body struct {
	bytes   []byte
	release func()
}

// readBody takes in the whole body, bounded in size and time. All larger bodies
// together are bounded too, by what they may become: a customer who announces
// much and sends it slowly takes up a place all the while.
func (x *Relay) readBody(w http.ResponseWriter, r *http.Request) (body, error) {
	tooLarge := apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge, fmt.Sprintf("body: larger than %d bytes", x.bounds.Body))
	if r.ContentLength > x.bounds.Body {
		return body{}, tooLarge
	}
	release, err := x.hold(r.ContentLength)
	if err != nil {
		return body{}, err
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(x.bounds.BodyTime)) // not there in tests with a recorder
	var in bytes.Buffer
	if r.ContentLength > 0 { // a claim; memory follows what really comes
		in.Grow(int(min(r.ContentLength, bufferSize)) + bytes.MinRead)
	}
	if _, err := in.ReadFrom(http.MaxBytesReader(w, r.Body, x.bounds.Body)); err != nil {
		release()
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return body{}, tooLarge
		}
		return body{}, apierr.Invalid("body", "could not be read in whole").Wrap(err)
	}
	_ = control.SetReadDeadline(time.Time{})
	return body{in.Bytes(), release}, nil
}

func nothing() {}

// hold takes a place for a body of the length that was announced, -1 for any.
func (x *Relay) hold(length int64) (release func(), err error) {
	if length < 0 {
		length = x.bounds.Body
	}
	if length <= small {
		return nothing, nil
	}
	if x.held.Add(length) > x.bounds.Memory {
		x.held.Add(-length)
		return nil, apierr.Unavailable("too many large bodies at once; try again soon", nil)
	}
	return func() { x.held.Add(-length) }, nil
}
