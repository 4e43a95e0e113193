// Package fakestest sends requests to the fakes in their tests. Only tests import it.
package fakestest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Send returns the fake's answer to a request.
func Send(tb testing.TB, fake http.Handler, method, url, body string, header map[string]string) *httptest.ResponseRecorder {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), method, url, strings.NewReader(body))
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	fake.ServeHTTP(answer, r)
	return answer
}
