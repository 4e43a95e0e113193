package webpush

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit"
)

func b64(tb testing.TB, text string) []byte {
	tb.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

const pushURL = "https://fcm.googleapis.com/fcm/send/canary-endpoint-path"

// RFC 8291, section 5 and appendix A.
func TestEncryptRFC8291(t *testing.T) {
	private, err := ecdh.P256().NewPrivateKey(b64(t, "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
	if err != nil {
		t.Fatal(err)
	}
	to, err := NewSubscription(Endpoint{},
		"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", "BTBZMqHH6r4Tts7J_aSIgg")
	if err != nil {
		t.Fatal(err)
	}
	got, err := newSender(private).encrypt(to, [saltSize]byte(b64(t, "DGv6ra1nlYgDCS1FRnbzlw")), []byte("When I grow up, I want to be a watermelon"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A" +
		"_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
	if text := base64.RawURLEncoding.EncodeToString(got); text != want {
		t.Errorf("message\n%s, want\n%s", text, want)
	}
}

// RFC 8188, section 3.1.
func TestEncodeRFC8188(t *testing.T) {
	got, err := encode(b64(t, "yqdlZ-tYemfogSmv7Ws5PQ"), [saltSize]byte(b64(t, "I1BsxtFttlv3u_Oo94xnmw")), nil, []byte("I am the walrus"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "I1BsxtFttlv3u_Oo94xnmwAAEAAA-NAVub2qFgBEuQKRapoZu-IxkIva3MEB1PD-ly8Thjg"
	if text := base64.RawURLEncoding.EncodeToString(got); text != want {
		t.Errorf("body %s, want %s", text, want)
	}
}

// device is a browser's side.
type device struct {
	private *ecdh.PrivateKey
	auth    []byte
}

func newDevice(tb testing.TB) device {
	tb.Helper()
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	auth := make([]byte, authSize)
	_, _ = rand.Read(auth)
	return device{private, auth}
}

func (d device) subscription(tb testing.TB, endpoint string) Subscription {
	tb.Helper()
	at, err := endpointOf(endpoint)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := NewSubscription(at, base64.RawURLEncoding.EncodeToString(d.private.PublicKey().Bytes()), base64.RawURLEncoding.EncodeToString(d.auth))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// open decrypts as the device does.
func (d device) open(tb testing.TB, body []byte) []byte {
	tb.Helper()
	sender, err := ecdh.P256().NewPublicKey(body[saltSize+5 : headerSize])
	if err != nil {
		tb.Fatal(err)
	}
	shared, err := d.private.ECDH(sender)
	if err != nil {
		tb.Fatal(err)
	}
	secret, err := combine(shared, d.subscription(tb, pushURL), sender.Bytes())
	if err != nil {
		tb.Fatal(err)
	}
	aead, nonce, err := derive(secret, [saltSize]byte(body[:saltSize]))
	if err != nil {
		tb.Fatal(err)
	}
	padded, err := aead.Open(nil, nonce, body[headerSize:], nil)
	if err != nil {
		tb.Fatal(err)
	}
	text, found := bytes.CutSuffix(padded, []byte{delimiter})
	if !found {
		tb.Fatal("the record has no final delimiter")
	}
	return text
}

func TestEncryptSizes(t *testing.T) {
	d := newDevice(t)
	to := d.subscription(t, pushURL)
	sender, err := NewSender()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, 256, MaxPlaintext} {
		text := bytes.Repeat([]byte("x"), size)
		body, err := sender.Encrypt(to, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.open(t, body); !bytes.Equal(got, text) || len(body) != headerSize+size+1+tagSize || len(body) > 4096 {
			t.Errorf("%d bytes became %d, opened to %d", size, len(body), len(got))
		}
	}
	if _, err := sender.Encrypt(to, make([]byte, MaxPlaintext+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte too many: %v", err)
	}
	one, _ := sender.Encrypt(to, []byte("same"))
	two, _ := sender.Encrypt(to, []byte("same"))
	if bytes.Equal(one[:saltSize], two[:saltSize]) || bytes.Equal(one[headerSize:], two[headerSize:]) {
		t.Error("two messages of one sender are alike")
	}
}

func TestNewSubscriptionRefuses(t *testing.T) {
	d := newDevice(t)
	point := base64.RawURLEncoding.EncodeToString(d.private.PublicKey().Bytes())
	auth := base64.RawURLEncoding.EncodeToString(d.auth)
	off := d.private.PublicKey().Bytes()
	off[64] ^= 1
	tests := map[string]struct{ point, auth, key string }{
		"a point off the curve":  {base64.RawURLEncoding.EncodeToString(off), auth, "p256dh"},
		"a compressed point":     {base64.RawURLEncoding.EncodeToString(append([]byte{2}, off[1:33]...)), auth, "p256dh"},
		"the point at infinity":  {"AA", auth, "p256dh"},
		"no point":               {"", auth, "p256dh"},
		"a point in base64":      {strings.Repeat("+", 87), auth, "p256dh"},
		"a short secret":         {point, auth[:20], "auth"},
		"no secret":              {point, "", "auth"},
		"a secret in other text": {point, "!!!!!!!!!!!!!!!!!!!!!!", "auth"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := NewSubscription(Endpoint{}, tt.point, tt.auth)
			e, ok := errors.AsType[*KeyError](err)
			if !ok || e.Key != tt.key {
				t.Fatalf("error %v, want %s", err, tt.key)
			}
			if len(tt.auth) > 8 {
				testkit.NoLeak(t, tt.auth, err.Error())
			}
		})
	}
	if _, err := NewSubscription(Endpoint{}, point+"=", auth+"=="); err != nil {
		t.Errorf("with padding: %v", err)
	}
}

func TestSubscriptionBytes(t *testing.T) {
	d := newDevice(t)
	s := d.subscription(t, pushURL)
	again, err := FromBytes(s.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if again.endpoint != s.endpoint {
		t.Errorf("endpoint %v, want %v", again.endpoint, s.endpoint)
	}
	if again.raw != s.raw {
		t.Errorf("point %x, want %x", again.raw, s.raw)
	}
	if again.auth != s.auth {
		t.Errorf("auth secret %x, want %x", again.auth, s.auth)
	}
	for name, b := range map[string][]byte{"nothing": nil, "short": s.Bytes()[:80], "another form": append([]byte{9}, s.Bytes()[1:]...), "no endpoint": s.Bytes()[:82]} {
		if _, err := FromBytes(b); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	shown := fmt.Sprintf("%v %+v %#v %s %x %q", s, s, s, s, s, s.Endpoint())
	testkit.NoLeak(t, "canary-endpoint-path", shown)
	testkit.NoLeak(t, string(d.auth), shown)
}

func TestHosts(t *testing.T) {
	hosts, err := NewHosts(KnownHosts, []string{"127.0.0.1:8193"}, url.Parse)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{
		"https://fcm.googleapis.com/fcm/send/x":              true,
		"https://updates.push.services.mozilla.com/wpush/v2": true,
		"https://web.push.apple.com/Qx":                      true,
		"https://wns2-par02p.notify.windows.com/w/?token=x":  true,
		"http://127.0.0.1:8193/push/x":                       true,
		"http://127.0.0.1:8194/push/x":                       false,
		"http://fcm.googleapis.com/fcm/send/x":               false,
		"https://fcm.googleapis.com:8443/x":                  false,
		"https://evil-fcm.googleapis.com/x":                  false,
		"https://fcm.googleapis.com.evil.example/x":          false,
		"https://push.apple.com/x":                           false,
		"https://evilpush.apple.com/x":                       false,
		"https://.push.apple.com/x":                          false,
		"https://169.254.169.254/x.apple.com/":               false,
		"https://evil.example/fcm.googleapis.com":            false,
		"%": false,
	}
	for raw, want := range tests {
		e, err := hosts.Parse(raw)
		if (err == nil) != want {
			t.Errorf("%s: %v, %v", raw, e, err)
		}
		if _, ok := errors.AsType[*EndpointError](err); err != nil && !ok {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for _, bad := range []string{"", "*", "*.com", "localhost", "https://a.example", "a.*.example"} {
		if _, err := NewHosts([]string{bad}, nil, url.Parse); err == nil {
			t.Errorf("host %q was taken", bad)
		}
	}
}

// Whatever is taken from a stranger opens again as the same, or is refused.
func FuzzSubscription(f *testing.F) {
	f.Add("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", "BTBZMqHH6r4Tts7J_aSIgg", pushURL)
	f.Add("", "", "https://[::1")
	sender, err := NewSender()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, point, auth, raw string) {
		at, err := endpointOf(raw)
		if err != nil {
			return
		}
		s, err := NewSubscription(at, point, auth)
		if err != nil {
			return
		}
		if again, err := FromBytes(s.Bytes()); err != nil || again.raw != s.raw || again.endpoint != s.endpoint {
			t.Errorf("read back %v, %v", again, err)
		}
		if _, err := sender.Encrypt(s, []byte("text")); err != nil {
			t.Errorf("encrypt: %v", err)
		}
	})
}
