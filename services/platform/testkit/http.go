package testkit

import (
	"io"
	"net/http"
	"testing"
)

// Do sends the request and returns the complete response, or fails the test. It also checks the amounts in the body by
// CheckDecimals.
func Do(tb testing.TB, client *http.Client, request *http.Request) (status int, body string, header http.Header) {
	tb.Helper()
	answer, err := client.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		tb.Fatal(err)
	}
	CheckDecimals(tb, string(text))
	return answer.StatusCode, string(text), answer.Header
}
