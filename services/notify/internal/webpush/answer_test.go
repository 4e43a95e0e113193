package webpush

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/testkit"
)

func TestRead(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	long := strings.Repeat("x", 60)
	tests := map[string]struct {
		status int
		header http.Header
		body   string
		want   Answer
	}{
		"created":                {201, nil, "", Answer{Accepted, 201, "", 0}},
		"ok":                     {200, nil, "", Answer{Accepted, 200, "", 0}},
		"receipt":                {202, http.Header{"Retry-After": {"9"}}, "", Answer{Accepted, 202, "", 0}},
		"gone":                   {410, nil, `{"errno":106}`, Answer{Gone, 410, "http_410: errno 106", 0}},
		"not found":              {404, nil, "", Answer{Gone, 404, "http_404", 0}},
		"moved":                  {301, nil, "", Answer{Refused, 301, "http_301", 0}},
		"bad":                    {400, nil, "", Answer{Refused, 400, "http_400", 0}},
		"too large":              {413, nil, "", Answer{Refused, 413, "http_413", 0}},
		"FCM's other key":        {403, nil, "the VAPID credentials in the authorization header do not correspond to the credentials used to create the subscriptions.\n", Answer{Mismatch, 403, "vapid_key_mismatch", 0}},
		"FCM's other sender":     {400, nil, "UnauthorizedRegistration", Answer{Mismatch, 400, "vapid_key_mismatch", 0}},
		"Apple's other key":      {400, nil, `{"reason":"VapidPkHashMismatch"}`, Answer{Mismatch, 400, "vapid_key_mismatch", 0}},
		"a bare 403":             {403, nil, "", Answer{Mismatch, 403, "vapid_key_mismatch", 0}},
		"FCM's other console":    {403, nil, "the key in the authorization header does not correspond to the sender ID used to subscribe this user. Please ensure you are using the correct sender ID and server Key from the Firebase console.\n", Answer{Mismatch, 403, "vapid_key_mismatch", 0}},
		"FCM's sender":           {403, nil, "MismatchSenderId", Answer{Mismatch, 403, "vapid_key_mismatch", 0}},
		"Apple's 403":            {403, nil, `{"reason":"VapidPkHashMismatch"}`, Answer{Mismatch, 403, "vapid_key_mismatch", 0}},
		"Mozilla's other key":    {401, nil, `{"code":401,"errno":109,"error":"Unauthorized","message":"VAPID public key mismatch","more_info":"http://autopush.readthedocs.io/en/latest/http.html#error-codes"}`, Answer{Mismatch, 401, "vapid_key_mismatch", 0}},
		"WNS's other key":        {401, http.Header{"X-Wns-Error-Description": {"The public key used to sign JWT does not match with the one included in channel Url"}}, "", Answer{Mismatch, 401, "vapid_key_mismatch", 0}},
		"WNS's 403":              {403, http.Header{"X-Wns-Error-Description": {"Channel URL incompatible with caller app"}}, "", Answer{Mismatch, 403, "vapid_key_mismatch", 0}},
		"FCM's bad token":        {403, nil, "permission denied: invalid JWT provided\n", Answer{Unauthorized, 403, "http_403", 0}},
		"Mozilla's signature":    {401, nil, `{"code":401,"errno":109,"error":"Unauthorized","message":"InvalidSignature"}`, Answer{Unauthorized, 401, "http_401: errno 109", 0}},
		"Mozilla's audience":     {401, nil, `{"code":401,"errno":109,"error":"Unauthorized","message":"Invalid VAPID audience"}`, Answer{Unauthorized, 401, "http_401: errno 109", 0}},
		"Mozilla's bad key":      {401, nil, `{"code":401,"errno":109,"error":"Unauthorized","message":"Invalid VAPID public key: x"}`, Answer{Unauthorized, 401, "http_401: errno 109", 0}},
		"WNS's bad token":        {401, http.Header{"X-Wns-Error-Description": {"JWT Authentication Failed, unabled to validate token signature"}}, "", Answer{Unauthorized, 401, "http_401: JWT Authentication Failed, unabled to validate token signature", 0}},
		"WNS's bad token, 403":   {403, http.Header{"X-Wns-Error-Description": {"JWT Authentication Failed"}}, "", Answer{Unauthorized, 403, "http_403: JWT Authentication Failed", 0}},
		"words with another 4xx": {413, nil, "VAPID public key mismatch", Answer{Refused, 413, "http_413", 0}},
		"Apple's bad token":      {403, nil, `{"reason":"BadJwtToken"}`, Answer{Unauthorized, 403, "http_403: BadJwtToken", 0}},
		"Mozilla's bad token":    {401, nil, `{"errno":109}`, Answer{Unauthorized, 401, "http_401: errno 109", 0}},
		"seconds":                {429, http.Header{"Retry-After": {"30"}}, "", Answer{Retry, 429, "http_429", 30 * time.Second}},
		"a date":                 {503, http.Header{"Retry-After": {"Fri, 01 May 2026 12:01:00 GMT"}}, "", Answer{Retry, 503, "http_503", time.Minute}},
		"a date that is past":    {503, http.Header{"Retry-After": {"Fri, 01 May 2026 11:01:00 GMT"}}, "", Answer{Retry, 503, "http_503", 0}},
		"a year":                 {429, http.Header{"Retry-After": {"31536000"}}, "", Answer{Retry, 429, "http_429", 24 * time.Hour}},
		"no number":              {429, http.Header{"Retry-After": {"soon"}}, "", Answer{Retry, 429, "http_429", 0}},
		"WNS throttles":          {406, http.Header{"Retry-After": {"5"}}, "", Answer{Retry, 406, "http_406", 5 * time.Second}},
		"WNS explains":           {400, http.Header{"X-Wns-Error-Description": {"Ttl value conflicts with X-WNS-Cache-Policy."}}, "", Answer{Refused, 400, "http_400: Ttl value conflicts with X-WNS-Cache-Policy.", 0}},
		"an answer that echoes":  {400, nil, `{"reason":"` + long + `"}`, Answer{Refused, 400, "http_400", 0}},
		"one that quotes a URL":  {500, http.Header{"X-Wns-Error-Description": {"see https://x"}}, "", Answer{Retry, 500, "http_500", 0}},
		"broken":                 {502, nil, "<html>", Answer{Retry, 502, "http_502", 0}},
	}
	for name, tt := range tests {
		if got := Read(tt.status, tt.header, []byte(tt.body), now); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	for status := 100; status < 600; status++ {
		if got := Read(status, nil, nil, now).Verdict; (got == Gone) != (status == 404 || status == 410) {
			t.Errorf("%d removes: %s", status, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(400, "soon", "Ttl value conflicts", `{"reason":"x"}`)
	f.Fuzz(func(t *testing.T, status int, after, description, body string) {
		a := Read(status, http.Header{"Retry-After": {after}, "X-Wns-Error-Description": {description}}, []byte(body), time.Unix(0, 0))
		if a.RetryAfter < 0 || a.RetryAfter > maxRetryAfter {
			t.Errorf("retry after %s", a.RetryAfter)
		}
		if len(a.Reason) > maxDetail+32 || strings.ContainsAny(a.Reason, "/\n\x00") {
			t.Errorf("reason %q", a.Reason)
		}
	})
}

// loopback lets a client through to a server of the test.
func loopback(t *testing.T, server *httptest.Server) *Client {
	t.Helper()
	guard, err := netguard.New(netguard.Options{AllowTargets: []string{strings.TrimPrefix(server.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	client := NewHTTP(guard, 4, netguard.TransportOptions{})
	t.Cleanup(client.CloseIdleConnections)
	return NewClient(client, NewSigner("mailto:ops@example.com"))
}

func TestPush(t *testing.T) {
	var got *http.Request
	var body []byte
	status := http.StatusCreated
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	defer server.Close()
	client, d, key := loopback(t, server), newDevice(t), newKey(t)
	sender, err := NewSender()
	if err != nil {
		t.Fatal(err)
	}
	to := d.subscription(t, server.URL+"/push/canary-endpoint-path?q=1")
	answer, err := client.Push(t.Context(), key, sender, to, Message{Text: []byte("hello"), TTL: 60, Urgency: "high", Topic: "t"})
	if err != nil || answer.Verdict != Accepted {
		t.Fatalf("%+v, %v", answer, err)
	}
	if !bytes.Equal(d.open(t, body), []byte("hello")) || got.RequestURI != "/push/canary-endpoint-path?q=1" || got.Method != http.MethodPost {
		t.Errorf("%s %s with %d bytes", got.Method, got.RequestURI, len(body))
	}
	want := map[string]string{"TTL": "60", "Urgency": "high", "Topic": "t", "Content-Encoding": "aes128gcm", "X-WNS-Cache-Policy": ""}
	for name, value := range want {
		if got.Header.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), value)
		}
	}
	if aud := claims(t, got.Header.Get("Authorization")).Aud; aud != server.URL {
		t.Errorf("audience %s", aud)
	}
	status = http.StatusTemporaryRedirect
	if answer, err = client.Push(t.Context(), key, sender, to, Message{}); err != nil || answer.Verdict != Refused {
		t.Errorf("a redirect: %+v, %v", answer, err)
	}
	server.Close()
	client.http.CloseIdleConnections() // one of them could take the request into its death, which is Lost
	answer, err = client.Push(t.Context(), key, sender, to, Message{})
	if err != nil || answer != (Answer{Verdict: Retry, Reason: "connection_failed"}) {
		t.Errorf("nobody there: %+v, %v", answer, err)
	}
	answer, err = client.Push(t.Context(), key, sender, d.subscription(t, "http://127.0.0.1:1/canary-endpoint-path"), Message{})
	if err != nil || answer.Verdict != Refused || !strings.HasPrefix(answer.Reason, "target_not_allowed") {
		t.Errorf("a private address: %+v, %v", answer, err)
	}
	testkit.NoLeak(t, "canary-endpoint-path", answer.Reason)
}

// Whatever breaks on the wire is never a reason to remove.
func TestPushOverABrokenWire(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer server.Close()
	client, d := loopback(t, server), newDevice(t)
	sender, err := NewSender()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	answer, err := client.Push(ctx, newKey(t), sender, d.subscription(t, server.URL+"/x"), Message{})
	if err != nil || answer.Verdict != Lost || !slices.Contains([]string{ReasonInterrupted, ReasonTimeout}, answer.Reason) {
		t.Errorf("%+v, %v", answer, err)
	}
}

func TestWindowsCachePolicy(t *testing.T) {
	client, d, key := NewClient(nil, NewSigner("mailto:ops@example.com")), newDevice(t), newKey(t)
	sender, err := NewSender()
	if err != nil {
		t.Fatal(err)
	}
	to := d.subscription(t, "https://wns2-par02p.notify.windows.com/w/?token=x")
	for ttl, want := range map[int]string{0: "no-cache", 60: "cache"} {
		request, err := client.Prepare(t.Context(), key, sender, to, Message{TTL: ttl})
		if err != nil || request.Header.Get("X-WNS-Cache-Policy") != want {
			t.Errorf("TTL %d: %q, %v", ttl, request.Header.Get("X-WNS-Cache-Policy"), err)
		}
	}
}
