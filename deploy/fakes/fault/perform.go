package fault

import (
	"compress/gzip"
	"context"
	"io"
	"maps"
	"net/http"
	"time"
)

// perform carries out an action on one HTTP call.
func (in *Injector) perform(w http.ResponseWriter, r *http.Request, a Action, next http.Handler) {
	if !wait(r.Context(), a.DelayMS) {
		panic(http.ErrAbortHandler)
	}
	if a.Hostile != "" {
		b, known := in.behaviours[a.Hostile]
		if !known {
			http.Error(w, "there is no behaviour "+a.Hostile, http.StatusNotFound)
			return
		}
		in.misbehave(w, r, b, next)
		return
	}
	switch {
	case a.cuts():
		cut(w, a.Reset)
	case a.HalfClose:
		halfClose(r.Context(), w)
	case a.EndlessHeaders:
		endlessHeaders(r.Context(), w)
	case a.SlowHeadMS > 0:
		in.slowHead(w, r, a)
	}
	for range a.Informational {
		w.WriteHeader(http.StatusEarlyHints)
	}
	shaped := &writer{ResponseWriter: w, ctx: r.Context(), action: a, streamError: func() string {
		return in.streamError(r, a)
	}}
	if a.answers() {
		in.answer(shaped, r, a)
	} else {
		for name, v := range a.Headers {
			w.Header().Set(name, v)
		}
		next.ServeHTTP(shaped, r)
	}
	shaped.finish()
}

// answer writes the scripted answer in the fake's place.
func (in *Injector) answer(w http.ResponseWriter, r *http.Request, a Action) {
	header, body := in.render(r, a)
	maps.Copy(w.Header(), header)
	w.WriteHeader(a.StatusCode())
	// The only error is a client that has left.
	if a.Gzip {
		zipped := gzip.NewWriter(w)
		_ = writeBody(zipped, body, a.FillerMB)
		_ = zipped.Close()
		return
	}
	_ = writeBody(w, body, a.FillerMB)
}

func writeBody(w io.Writer, body string, fillerMB int) error {
	if _, err := io.WriteString(w, body); err != nil {
		return err
	}
	mib := make([]byte, 1<<20)
	for range fillerMB {
		if _, err := w.Write(mib); err != nil {
			return err
		}
	}
	return nil
}

// render returns the head and the text of the scripted answer.
func (in *Injector) render(r *http.Request, a Action) (http.Header, string) {
	header, body := http.Header{}, a.Body
	if body == "" && a.StatusCode() >= 400 && in.opts.ErrorBody != nil {
		contentType, text := in.opts.ErrorBody(r, a.StatusCode(), a.RetryAfter)
		header.Set("Content-Type", contentType)
		body = text
	}
	if a.Redirect != "" {
		header.Set("Location", a.Redirect)
	}
	if a.RetryAfter != "" {
		header.Set("Retry-After", a.RetryAfter)
	}
	if a.Gzip {
		header.Set("Content-Encoding", "gzip")
	}
	for name, v := range a.Headers {
		header.Set(name, v)
	}
	return header, body
}

func (in *Injector) streamError(r *http.Request, a Action) string {
	if in.opts.StreamError == nil {
		return "event: error\ndata: " + a.Body + "\n\n"
	}
	status := a.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	return in.opts.StreamError(r, status, a.Body)
}

// wait pauses for some milliseconds and reports whether the client is still connected.
func wait(ctx context.Context, ms int) bool {
	if ms <= 0 {
		return true
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
