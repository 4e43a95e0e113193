package webpush

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestSubscriptionGrowsLinearly(t *testing.T) {
	hosts, err := NewHosts(KnownHosts, nil, url.Parse)
	if err != nil {
		t.Fatal(err)
	}
	at, err := endpointOf(pushURL)
	if err != nil {
		t.Fatal(err)
	}
	growth.Linear(t, growth.EachText(growth.Text, func(text string) {
		_, _ = hosts.Parse("https://" + text + "/x")
		_, _ = hosts.Parse("https://fcm.googleapis.com/" + text)
		_, _ = NewSubscription(at, text, text)
		_, _ = FromBytes([]byte(text))
		_ = CheckSubject("mailto:" + text)
	})...)
}

func TestReadGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(append(growth.JSON, growth.Text...), func(text []byte) {
		for _, status := range []int{400, 403, 429} {
			_ = Read(status, http.Header{"Retry-After": {string(text)}, "X-Wns-Error-Description": {string(text)}}, text, time.Unix(0, 0))
			_ = Read(status, http.Header{}, append([]byte(`{"reason":`), text...), time.Unix(0, 0))
		}
	})...)
}

func TestParseKeyGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _, _ = ParseKey(secret.New(text)) })...)
	growth.Linear(t, growth.Row{Name: "keys", Top: 1 << 10, Make: func(n int) func() {
		lines := make([]secret.Value, n)
		return func() { _, _ = ParseKeys(lines) }
	}})
}
