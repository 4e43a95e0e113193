package push

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/fakes/fakestest"
	"switchyard.dev/deploy/fakes/fault"
)

// The example of RFC 8291, section 5.
const (
	exampleText    = "When I grow up, I want to be a watermelon"
	examplePrivate = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
	exampleAuth    = "BTBZMqHH6r4Tts7J_aSIgg"
	exampleBody    = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)

func decode(t *testing.T, s string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func exampleSubscription(t *testing.T) *Subscription {
	t.Helper()
	private, err := ecdh.P256().NewPrivateKey(decode(t, examplePrivate))
	if err != nil {
		t.Fatal(err)
	}
	return &Subscription{private: private, auth: decode(t, exampleAuth)}
}

func TestDecrypt(t *testing.T) {
	message := decode(t, exampleBody)
	text, err := exampleSubscription(t).Decrypt(message)
	if err != nil || string(text) != exampleText {
		t.Errorf("Decrypt = %q, %v; want the example's text", text, err)
	}
	other, err := NewSubscription("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Decrypt(message); err == nil {
		t.Error("another subscription opens the message")
	}
	for _, size := range []int{0, headerSize - 1, headerSize, len(message) - 1} {
		if _, err := exampleSubscription(t).Decrypt(message[:size]); err == nil {
			t.Errorf("the first %d bytes open", size)
		}
	}
}

type sender struct {
	key    *ecdsa.PrivateKey
	public string
}

func newSender(t *testing.T) sender {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return sender{key: key, public: base64.RawURLEncoding.EncodeToString(point)}
}

func (s sender) token(t *testing.T, header, claims string) string {
	t.Helper()
	signed := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	sum := sha256.Sum256([]byte(signed))
	r, v, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	v.FillBytes(signature[32:])
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func (s sender) authorization(t *testing.T, aud string, exp time.Time) string {
	t.Helper()
	claims := `{"aud":"` + aud + `","exp":` + strconv.FormatInt(exp.Unix(), 10) + `,"sub":"mailto:ops@example.com"}`
	return "vapid t=" + s.token(t, `{"typ":"JWT","alg":"ES256"}`, claims) + ", k=" + s.public
}

func TestParseVAPID(t *testing.T) {
	const aud = "https://push.example"
	now := time.Unix(1_700_000_000, 0)
	s, other := newSender(t), newSender(t)
	good := s.authorization(t, aud, now.Add(time.Hour))
	token, _, err := splitHeader(good)
	if err != nil {
		t.Fatal(err)
	}
	claims := func(c string) string { return "vapid t=" + s.token(t, `{"alg":"ES256"}`, c) + ", k=" + s.public }
	tests := []struct {
		name   string
		header string
		want   string // part of the error; empty = valid
	}{
		{"valid", good, ""},
		{"the other order, no space", "vapid k=" + s.public + ",t=" + token, ""},
		{"24 hours ahead", s.authorization(t, aud, now.Add(24*time.Hour)), ""},
		{"none", "", "scheme"},
		{"another scheme", "WebPush " + token, "scheme"},
		{"no key", "vapid t=" + token, "lacks t or k"},
		{"no token", "vapid k=" + s.public, "lacks t or k"},
		{"another key", "vapid t=" + token + ", k=" + other.public, "does not fit"},
		{"a short key", "vapid t=" + token + ", k=" + s.public[:40], "point of P-256"},
		{"key with padding", "vapid t=" + token + ", k=" + s.public + "=", "k is not base64url"},
		{"half a token", "vapid t=" + token[:30] + ", k=" + s.public, "not a JWT"},
		{"another algorithm", "vapid t=" + s.token(t, `{"alg":"none"}`, `{}`) + ", k=" + s.public, "ES256"},
		{"exp as text", claims(`{"aud":"` + aud + `","exp":"1700000100","sub":"mailto:a@b"}`), "claims"},
		{"another origin", s.authorization(t, "https://push.example/", now.Add(time.Hour)), "aud"},
		{"expired", s.authorization(t, aud, now), "passed"},
		{"more than a day ahead", s.authorization(t, aud, now.Add(24*time.Hour+time.Second)), "24 hours"},
		{"no contact", claims(`{"aud":"` + aud + `","exp":1700000100}`), "sub"},
		{"a contact with a name", claims(`{"aud":"` + aud + `","exp":1700000100,"sub":"mailto: <a@b>"}`), "sub"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := ParseVAPID(tt.header, aud, now)
			switch {
			case tt.want == "" && (err != nil || v.Key != s.public || v.Subject != "mailto:ops@example.com"):
				t.Errorf("ParseVAPID = %+v, %v", v, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want one about %q", err, tt.want)
			}
		})
	}
}

func send(t *testing.T, srv *Server, method, path string, body []byte, header map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	return fakestest.Send(t, srv, method, "http://push.example"+path, string(body), header)
}

func TestPush(t *testing.T) {
	auth := newSender(t).authorization(t, "http://push.example", time.Now().Add(time.Hour))
	tests := []struct {
		name   string
		size   int
		change map[string]string
		status int
		want   string
	}{
		{"accepted", 4096, nil, 201, ""},
		{"without a payload", 0, map[string]string{"Content-Encoding": ""}, 201, ""},
		{"all headers", 1, map[string]string{"Urgency": "very-low", "Topic": strings.Repeat("a", 32), "TTL": "0"}, 201, ""},
		{"too large", 4097, nil, 413, `"errno":104`},
		{"no TTL", 1, map[string]string{"TTL": ""}, 400, `"errno":111`},
		{"a negative TTL", 1, map[string]string{"TTL": "-1"}, 400, `"errno":112`},
		{"a long topic", 1, map[string]string{"Topic": strings.Repeat("a", 33)}, 400, `"errno":113`},
		{"unknown urgency", 1, map[string]string{"Urgency": "now"}, 400, "Urgency"},
		{"the older encoding", 1, map[string]string{"Content-Encoding": "aesgcm"}, 400, `"errno":110`},
		{"no authorization", 1, map[string]string{"Authorization": ""}, 401, `"errno":109`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			header := map[string]string{"TTL": "60", "Content-Encoding": "aes128gcm", "Authorization": auth}
			maps.Copy(header, tt.change)
			srv := New(fault.Script{})
			got := send(t, srv, "POST", "/push/a", make([]byte, tt.size), header)
			if got.Code != tt.status || !strings.Contains(got.Body.String(), tt.want) {
				t.Fatalf("got %d %s, want %d with %q", got.Code, got.Body, tt.status, tt.want)
			}
			stored := srv.Messages(10)
			if (len(stored) == 1) != (tt.status == 201) {
				t.Fatalf("%d messages stored", len(stored))
			}
			if tt.status == 201 && (len(stored[0].Body) != tt.size || !strings.HasPrefix(got.Header().Get("Location"), "http://push.example/message/")) {
				t.Errorf("stored %d bytes, Location %q", len(stored[0].Body), got.Header().Get("Location"))
			}
		})
	}
}

func TestSubscriptionsFromCreationToDeletion(t *testing.T) {
	srv := New(fault.Script{})
	s := newSender(t)
	header := map[string]string{
		"TTL": "60", "Content-Encoding": "aes128gcm",
		"Authorization": s.authorization(t, "http://push.example", time.Now().Add(time.Hour)),
	}
	got := send(t, srv, "POST", "/_subscriptions", []byte(`{"application_server_key":"`+s.public+`"}`), nil)
	var sub struct {
		Endpoint string
		Keys     struct{ P256dh, Auth string }
	}
	if err := json.Unmarshal(got.Body.Bytes(), &sub); err != nil || got.Code != http.StatusCreated {
		t.Fatalf("subscribe: %d %s", got.Code, got.Body)
	}
	if _, err := ecdh.P256().NewPublicKey(decode(t, sub.Keys.P256dh)); err != nil || len(decode(t, sub.Keys.Auth)) != 16 {
		t.Errorf("keys %+v: %v", sub.Keys, err)
	}
	path := strings.TrimPrefix(sub.Endpoint, "http://push.example")

	if got := send(t, srv, "POST", path, []byte("x"), header); got.Code != 201 {
		t.Errorf("push: %d %s", got.Code, got.Body)
	}
	if m := srv.Messages(1)[0]; m.DecryptError == "" {
		t.Errorf("a message that does not open has no error: %+v", m)
	}
	otherSender := newSender(t).authorization(t, "http://push.example", time.Now().Add(time.Hour))
	header["Authorization"], otherSender = otherSender, header["Authorization"]
	if got := send(t, srv, "POST", path, []byte("x"), header); got.Code != 401 || !strings.Contains(got.Body.String(), "VAPID public key mismatch") {
		t.Errorf("a push of another sender: %d", got.Code)
	}
	header["Authorization"] = otherSender
	if got := send(t, srv, "DELETE", path, nil, nil); got.Code != 204 {
		t.Errorf("unsubscribe: %d", got.Code)
	}
	if got := send(t, srv, "POST", path, []byte("x"), header); got.Code != 410 {
		t.Errorf("push to one that is gone: %d", got.Code)
	}
}

func TestMessagesAreOpenedForTheirSubscription(t *testing.T) {
	srv := New(fault.Script{})
	if !srv.keep("/push/example", exampleSubscription(t)) {
		t.Fatal("no room")
	}
	auth := newSender(t).authorization(t, "http://push.example", time.Now().Add(time.Hour))
	header := map[string]string{"TTL": "60", "Content-Encoding": "aes128gcm", "Authorization": auth}
	if got := send(t, srv, "POST", "/push/example", decode(t, exampleBody), header); got.Code != 201 {
		t.Fatalf("push: %d %s", got.Code, got.Body)
	}
	raw := send(t, srv, "GET", "/_messages?path=/push/example", nil, nil).Body.String()
	if !strings.Contains(raw, `"plaintext":"`+exampleText+`"`) {
		t.Errorf("the text is not in %s", raw)
	}
	if got := send(t, srv, "GET", "/_count?path=/push/other", nil, nil).Body.String(); !strings.Contains(got, `"count":0`) {
		t.Errorf("another path: %s", got)
	}
}

func TestScriptedStatuses(t *testing.T) {
	srv := New(fault.Script{Rules: []fault.Rule{
		{Times: 1, Action: fault.Action{Status: 410}},
		{Times: 1, Action: fault.Action{RetryAfter: "9"}},
	}})
	if got := send(t, srv, "POST", "/push/a", nil, nil); got.Code != 410 || !strings.Contains(got.Body.String(), `"errno":106`) {
		t.Errorf("gone: %d %s", got.Code, got.Body)
	}
	if got := send(t, srv, "POST", "/push/a", nil, nil); got.Code != 429 || got.Header().Get("Retry-After") != "9" {
		t.Errorf("busy: %d %v", got.Code, got.Header())
	}
}
