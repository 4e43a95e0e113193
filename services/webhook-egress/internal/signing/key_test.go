package signing_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"flag"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/platform/testkit/growth"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

var update = flag.Bool("update", false, "write the receivers' vectors")

// The keys of RFC 8032, section 7.1, tests 1 and 2.
const (
	firstSeed    = "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
	firstPublic  = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
	secondSeed   = "TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs="
	secondPublic = "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="
)

func keysOf(t *testing.T, text string) []*signing.Key {
	t.Helper()
	keys, err := signing.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestParseKeys(t *testing.T) {
	both := base64.StdEncoding.EncodeToString(append(decode(t, firstSeed), decode(t, firstPublic)...))
	for name, text := range map[string]string{
		"a seed": "whsk_" + firstSeed, "seed and public key": "whsk_" + both, "blank lines": "\n whsk_" + firstSeed + " \r\n\n",
	} {
		keys := keysOf(t, text)
		// The thumbprint is that of RFC 8037, appendix A.3.
		got := []string{keys[0].Public, keys[0].X, keys[0].ID}
		want := []string{"whpk_" + firstPublic, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"}
		if diff := cmp.Diff(want, got); diff != "" || len(keys) != 1 {
			t.Errorf("%s: %d keys (-want +got):\n%s", name, len(keys), diff)
		}
	}
	mixed := base64.StdEncoding.EncodeToString(append(decode(t, firstSeed), decode(t, secondPublic)...))
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":                        {" \n", "one key or more"},
		"a secret of the symmetric kind": {"whsec_" + firstSeed, "line 1"},
		"no base64":                      {"whsk_" + firstSeed + "\nwhsk_%%%%", "line 2"},
		"a short key":                    {"whsk_" + firstSeed[4:], "line 1"},
		"another public key":             {"whsk_" + mixed, "line 1"},
		"17 keys":                        {strings.Repeat("whsk_"+firstSeed+"\n", 17), "line 17"},
	} {
		if _, err := signing.ParseKeys(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), firstSeed[8:]) {
			t.Errorf("%s: %v, want text with %s", name, err, tt.want)
		}
	}
}

func decode(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func FuzzParseKeys(f *testing.F) {
	f.Add("whsk_" + firstSeed + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := signing.ParseKeys(text)
		if (err == nil) != (len(keys) > 0) {
			t.Errorf("%d keys, %v", len(keys), err)
		}
	})
}

func TestParseKeysGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) {
		_, _ = signing.ParseKeys(text)
		_, _ = signing.ParseKeys("whsk_" + text)
	})...)
}

// The header has the signatures that are asked for, and today's without being asked.
func TestSchemes(t *testing.T) {
	key := keysOf(t, "whsk_"+firstSeed)[0]
	v1 := "v1," + standard(raw)
	v1a := "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(decode(t, firstSeed)), []byte(`msg-1.1700000000.{"a":1}`)))
	for name, tt := range map[string]struct {
		schemes []string
		secret  string
		want    string
	}{
		"by default":               {nil, raw, v1},
		"as by default":            {signing.DefaultSchemes(), raw, v1},
		"spec only":                {[]string{"spec"}, raw, ""},
		"asymmetric only":          {[]string{"spec", "v1a"}, raw, v1a},
		"all":                      {[]string{"spec", "v1", "v1a"}, raw, v1 + " " + v1a},
		"all, with a short secret": {[]string{"spec", "v1", "v1a"}, short, v1a},
	} {
		s := signing.Signer{Mode: signing.OrgTimestamp, Secrets: []secret.Value{secret.New(tt.secret)}, Schemes: tt.schemes, Key: key}
		headers := s.Headers(message())
		if got := headers[signing.HeaderStandardSignature]; got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if (headers[signing.HeaderStandardID] == "") != (tt.want == "") {
			t.Errorf("%s: id %q beside the signature", name, headers[signing.HeaderStandardID])
		}
		if headers[signing.HeaderSignature] != vector(tt.secret, "1700000000.", `{"a":1}`) {
			t.Errorf("%s: X-Webhook-Signature is %s", name, headers[signing.HeaderSignature])
		}
	}
}

// A file is read again when it changes; while it is malformed, there are no keys, which is logged without them.
func TestKeySet(t *testing.T) {
	var none *signing.KeySet
	if none.Current(t.Context()) != nil || none.Keys(t.Context()) != nil {
		t.Error("no file has keys")
	}
	if s, err := signing.OpenKeys("", testkit.Logger(t)); s != nil || err != nil {
		t.Errorf("without a file: %v, %v", s, err)
	}
	file := filepath.Join(t.TempDir(), "keys")
	if _, err := signing.OpenKeys(secret.File(file), testkit.Logger(t)); err == nil {
		t.Error("a missing file opens")
	}
	testkit.WriteFile(t, file, "whsk_"+firstSeed)
	var log bytes.Buffer
	s, err := signing.OpenKeys(secret.File(file), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	becomes := func(what, text string, want ...string) {
		t.Helper()
		testkit.WriteFile(t, file, text)
		deadline := time.Now().Add(10 * time.Second)
		for {
			var got []string
			for _, key := range s.Keys(t.Context()) {
				got = append(got, strings.TrimPrefix(key.Public, "whpk_"))
			}
			if cmp.Equal(want, got) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: keys %v, want %v", what, got, want)
			}
		}
	}
	becomes("a new one appended", "whsk_"+firstSeed+"\nwhsk_"+secondSeed+"\n", firstPublic, secondPublic)
	becomes("moved to the top", "whsk_"+secondSeed+"\nwhsk_"+firstSeed+"\n\n", secondPublic, firstPublic)
	becomes("malformed", "whsk_"+firstSeed+"x\n")
	becomes("repaired", "whsk_"+secondSeed, secondPublic)
	if n := strings.Count(log.String(), "cannot be read"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	testkit.NoLeak(t, firstSeed, log.String())
}

// vectorCase is a delivery for the samples of receivers, with what a receiver that holds its key must decide.
type vectorCase struct {
	Name string `json:"name"`
	// Check is `organization` or `endpoint` for X-Webhook-Signature of these signing modes, or `v1` or `v1a`. Key is the
	// secret or public key that the receiver holds.
	Check string `json:"check"`
	Key   string `json:"key"`
	// Now is the receiver's time in seconds.
	Now     int64             `json:"now"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Valid   bool              `json:"valid"`
}

// receiverVectors are the deliveries with which the samples of receivers are tested.
const receiverVectors = "../../../../deploy/examples/receivers/vectors.json"

// vectors signs deliveries for every scheme, and changes them in every way that a receiver has to notice.
func vectors(t *testing.T) []vectorCase {
	t.Helper()
	const own, old, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "a-plain-secret-of-32-bytes-......", `{"order": 7, "name": "Jürgen ☃"}`
	at := time.Unix(1700000000, 0)
	sign := func(mode string) map[string]string {
		return signing.Signer{
			Mode: mode, Secrets: []secret.Value{secret.New(own), secret.New(old)}, Schemes: []string{"spec", "v1", "v1a"},
			Key: keysOf(t, "whsk_"+firstSeed)[0],
		}.Headers(signing.Message{ID: "01900000-0000-7000-8000-000000000001", At: at, Body: []byte(body)})
	}
	organization, endpoint := sign(signing.OrgTimestamp), sign(signing.EndpointBody)
	with := func(headers map[string]string, name, value string) map[string]string {
		changed := maps.Clone(headers)
		changed[name] = value
		return changed
	}
	var all []vectorCase
	add := func(name, check, key string, headers map[string]string, body string, now int64, valid bool) {
		all = append(all, vectorCase{name, check, key, now, headers, body, valid})
	}
	for _, one := range []struct {
		name, check, key, stranger string
		headers                    map[string]string
		timestamp, signature       string
	}{
		{"organization", "organization", own, "another", organization, "X-Webhook-Timestamp", "X-Webhook-Signature"},
		{"endpoint", "endpoint", own, "another", endpoint, "", "X-Webhook-Signature"},
		{"Standard Webhooks", "v1", own, "whsec_" + firstSeed, endpoint, "Webhook-Timestamp", "Webhook-Signature"},
		{"Standard Webhooks, the previous secret", "v1", old, "whsec_" + firstSeed, endpoint, "Webhook-Timestamp", "Webhook-Signature"},
		{"Ed25519", "v1a", "whpk_" + firstPublic, "whpk_" + secondPublic, organization, "Webhook-Timestamp", "Webhook-Signature"},
	} {
		now := at.Unix()
		add(one.name, one.check, one.key, one.headers, body, now, true)
		add(one.name+": another body", one.check, one.key, one.headers, body+" ", now, false)
		add(one.name+": another key", one.check, one.stranger, one.headers, body, now, false)
		add(one.name+": no signature", one.check, one.key, with(one.headers, one.signature, ""), body, now, false)
		add(one.name+": no base64 or hex", one.check, one.key, with(one.headers, one.signature, one.check+",%%"), body, now, false)
		add(one.name+": no comma", one.check, one.key, with(one.headers, one.signature, one.check), body, now, false)
		if one.timestamp == "" {
			continue
		}
		add(one.name+": four minutes later", one.check, one.key, one.headers, body, now+240, true)
		add(one.name+": six minutes later", one.check, one.key, one.headers, body, now+360, false)
		add(one.name+": six minutes earlier", one.check, one.key, one.headers, body, now-360, false)
		add(one.name+": another time", one.check, one.key, with(one.headers, one.timestamp, "1700000001"), body, now, false)
		add(one.name+": a long time", one.check, one.key, with(one.headers, one.timestamp, strings.Repeat("1", 5000)), body, now, false)
		add(one.name+": no time", one.check, one.key, with(one.headers, one.timestamp, "soon"), body, now, false)
		if strings.HasPrefix(one.check, "v1") {
			add(one.name+": another id", one.check, one.key, with(one.headers, "Webhook-Id", "2"), body, now, false)
		}
	}
	return all
}

// The receivers' vectors are what the service signs.
func TestReceiverVectors(t *testing.T) {
	text, err := json.MarshalIndent(vectors(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile(receiverVectors, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(receiverVectors)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(kept), string(text)); diff != "" {
		t.Errorf("%s is not what the service signs; run with -update (-file +signed):\n%s", receiverVectors, diff)
	}
}
