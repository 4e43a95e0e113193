package fault

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
)

type actionKey struct{}

// FromContext returns the action that applies to a call which the script left to the fake. It is empty when no rule
// matched.
func FromContext(ctx context.Context) Action {
	action, _ := ctx.Value(actionKey{}).(Action)
	return action
}

// Handler returns the whole face of a fake: paths that begin with "/_" go to control, to which it adds /_script and
// /_calls; all others are calls, which pass through the script before they reach next.
func (in *Injector) Handler(control *http.ServeMux, next http.Handler) http.Handler {
	control.HandleFunc("GET /_script", in.showScript)
	control.HandleFunc("POST /_script", func(w http.ResponseWriter, r *http.Request) { in.takeScript(w, r, in.Append) })
	control.HandleFunc("PUT /_script", func(w http.ResponseWriter, r *http.Request) { in.takeScript(w, r, in.Replace) })
	control.HandleFunc("DELETE /_script", func(w http.ResponseWriter, _ *http.Request) {
		in.ClearScript()
		w.WriteHeader(http.StatusNoContent)
	})
	control.HandleFunc("GET /_calls", func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, http.StatusOK, in.Calls()) })
	control.HandleFunc("DELETE /_calls", func(w http.ResponseWriter, _ *http.Request) {
		in.ClearCalls()
		w.WriteHeader(http.StatusNoContent)
	})
	in.face = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/_") {
			control.ServeHTTP(w, r)
			return
		}
		in.serve(w, r, next)
	})
	return in.face
}

func (in *Injector) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	head := Call{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header}
	if action, b, ok := in.takeEarly(head); ok {
		in.note(head, action, true)
		if in.opts.Observe != nil {
			in.opts.Observe(r, head, faultOf(action, true))
		}
		in.misbehave(w, r, b, next)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, in.opts.MaxBody+1))
	if err != nil {
		// The client disconnected while sending, so no answer can reach it.
		panic(http.ErrAbortHandler)
	}
	call := Call{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header,
		Body:      body[:min(int64(len(body)), in.opts.MaxBody)],
		Truncated: int64(len(body)) > in.opts.MaxBody,
	}
	action, matched := in.Next(call)
	if !matched && call.Truncated {
		action, matched = Action{Status: http.StatusRequestEntityTooLarge}, true
	}
	if in.opts.Observe != nil {
		in.opts.Observe(r, call, faultOf(action, matched))
	}
	r.Body = io.NopCloser(bytes.NewReader(call.Body))
	if !matched {
		next.ServeHTTP(w, r)
		return
	}
	_, r.URL.Path = hostilePath(r.URL.Path)
	_, r.URL.RawPath = hostilePath(r.URL.RawPath)
	in.perform(w, r.WithContext(context.WithValue(r.Context(), actionKey{}, action)), action, next)
}

func (in *Injector) showScript(w http.ResponseWriter, _ *http.Request) {
	WriteJSON(w, http.StatusOK, in.Script())
}

func (in *Injector) takeScript(w http.ResponseWriter, r *http.Request, install func(Script) error) {
	script, err := ParseScript(http.MaxBytesReader(w, r.Body, 16<<20))
	if err == nil {
		err = install(script)
	}
	if err != nil {
		WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	WriteJSON(w, http.StatusOK, map[string]int{"rules": len(in.Script().Rules)})
}
