package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
)

// fields is a JSON object as it is read.
type fields = map[string]any

// answer is what came back on the JSON face.
type answer struct {
	status int
	body   string
	header http.Header
}

// fields reads an answer as an object.
func (a answer) fields(tb testing.TB, status int) map[string]any {
	tb.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(a.body), &fields); err != nil || a.status != status {
		tb.Fatalf("%d %s, want %d (%v)", a.status, a.body, status, err)
	}
	return fields
}

// gives reads a JSON object.
func (a answer) gives(tb testing.TB, want int) map[string]any {
	tb.Helper()
	fields := map[string]any{}
	if a.status != want || want != http.StatusNoContent && json.Unmarshal([]byte(a.body), &fields) != nil {
		tb.Fatalf("%d %s, want %d", a.status, a.body, want)
	}
	return fields
}

// in reads an answer as JSON.
func (a answer) in(tb testing.TB, status int, into any) {
	tb.Helper()
	if a.status != status {
		tb.Fatalf("%d %s, want %d", a.status, a.body, status)
	}
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		tb.Fatalf("%v: %s", err, a.body)
	}
}

// has compares some of an answer's fields with what JSON makes of the values; nil is null or no field.
func has(tb testing.TB, fields, want map[string]any) {
	tb.Helper()
	text, err := json.Marshal(want)
	if err != nil {
		tb.Fatal(err)
	}
	var values map[string]any
	if err := json.Unmarshal(text, &values); err != nil {
		tb.Fatal(err)
	}
	for name, value := range values {
		if !cmp.Equal(value, fields[name]) {
			tb.Errorf("%s is %v, want %v", name, fields[name], value)
		}
	}
}

// contains checks the status, and that the body has each part.
func (a answer) contains(tb testing.TB, status int, parts ...string) {
	tb.Helper()
	if a.status != status {
		tb.Errorf("status %d, want %d: %s", a.status, status, a.body)
	}
	for _, part := range parts {
		if !strings.Contains(a.body, part) {
			tb.Errorf("%s is not in %s", part, a.body)
		}
	}
}

// sameRefusal checks that gRPC refused as the JSON face did, with the status and the document.
func sameRefusal(tb testing.TB, err error, status int, document apierr.Document) {
	tb.Helper()
	e := apierr.From(err)
	if e == nil {
		tb.Errorf("gRPC did not refuse: %v", err)
		return
	}
	if got := e.Kind.HTTPStatus(); got != status {
		tb.Errorf("gRPC refused as %d, want %d", got, status)
	}
	if e.Text != document.Reason {
		tb.Errorf("gRPC refused with %q, want %q", e.Text, document.Reason)
	}
	if e.Reason != document.Error || e.ErrorClass() != document.ErrorClass {
		tb.Errorf("gRPC refused with %s of class %s, want %s of %s", e.Reason, e.ErrorClass(), document.Error, document.ErrorClass)
	}
}

// refused checks the whole error document.
func (a answer) refused(tb testing.TB, status int, reason, text string) apierr.Document {
	tb.Helper()
	var document apierr.Document
	if err := json.Unmarshal([]byte(a.body), &document); err != nil {
		tb.Fatalf("%v: %s", err, a.body)
	}
	if a.status != status || string(document.Error) != reason {
		tb.Errorf("%d %s, want %d %s: %s", a.status, document.Error, status, reason, a.body)
	}
	if !strings.Contains(document.Reason, text) {
		tb.Errorf("the reason is %q, want %q in it", document.Reason, text)
	}
	if document.ErrorClass == "" || document.RequestID != "req-test" {
		tb.Errorf("class %q, request %q, want a class and req-test", document.ErrorClass, document.RequestID)
	}
	return document
}
