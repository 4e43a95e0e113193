package redact_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/content/redact"
)

func text(tb testing.TB, in string) (string, string) {
	tb.Helper()
	found := redact.Kinds{}
	out := new(redact.Redactor).Text(in, found)
	return out, strings.Join(found.Sorted(), " ")
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		// E-mail addresses.
		"write to ada.lovelace+x@mail.example.co.uk.": "write to [email].",
		"<bob@example.com>, 'eve@example.org'":        "<[email]>, '[email]'",
		"https://h/?mail=bob%40example.com&x=1":       "https://h/?mail=[email]&x=1",
		"jürgen@münchen.de und 李@例子.公司":               "[email] und [email]",
		"a@b and @handle and x@localhost":             "a@b and @handle and x@localhost",
		"o'brien@example.com":                         "[email]",
		"git@github.com:acme/x.git":                   "[email]:acme/x.git",

		// Phone numbers.
		"+49 171 1234567, +1 (415) 555-0132":                        "[phone], [phone]",
		"tel:+4915112345678":                                        "tel:[phone]",
		"0049 30 901820":                                            "[phone]",
		"(415) 555-0132 or 415.555.0132":                            "[phone] or [phone]",
		"1-800-555-0199 ext 5":                                      "[phone] ext 5",
		"0171 1234567 / 030/901820-0":                               "[phone] / [phone]",
		"01 23 45 67 89":                                            "[phone]",
		"+33\u00a06\u00a012\u00a034\u00a056\u00a078":                "[phone]",
		"2026-11-21 16:05, 21.11.2026, 10:20:30":                    "2026-11-21 16:05, 21.11.2026, 10:20:30",
		"order 1234567890, version 1.20.3, 100-200-300, +12":        "order 1234567890, version 1.20.3, 100-200-300, +12",
		"01-02-2026 10:30 and 3.14159265358979 and 1e+15, 5+123456": "01-02-2026 10:30 and 3.14159265358979 and 1e+15, 5+123456",

		// Cards.
		"4111 1111 1111 1111":                        "[card]",
		"card:4111111111111111, 5500-0000-0000-0004": "card:[card], [card]",
		"3782 822463 10005 (amex)":                   "[card] (amex)",
		"pay 5 4111.1111.1111.1111 now":              "pay 5 [card] now",
		"4111 1111 1111 1112 fails the check":        "4111 1111 1111 1112 fails the check",
		"41111111111111111111111 is too long":        "41111111111111111111111 is too long",
		"6304000000000000000 of 19 digits":           "[card] of 19 digits",
		"1763740000000000000 nanoseconds":            "1763740000000000000 nanoseconds",

		// Account numbers.
		"DE89 3704 0044 0532 0130 00 and gb82west12345698765432": "[iban] and [iban]",
		"NO9386011117947, MT84MALT011000012345MTLCAST001S":       "[iban], [iban]",
		"NO9386011117948 fails":                                  "NO9386011117948 fails",
		"XX89370400440532013000":                                 "XX89370400440532013000",
		"DE893704004405320130001":                                "DE893704004405320130001",

		// IP addresses.
		"from 192.168.1.10:8080 to ip:10.0.0.1.":           "from [ip]:8080 to ip:[ip].",
		"[2001:db8::1]:443, fe80::1%eth0, ::ffff:10.0.0.1": "[[ip]]:443, [ip]%eth0, [ip]",
		"2001:0db8:0000:0000:0000:ff00:0042:8329":          "[ip]",
		"1.2.3.4.5, 300.1.1.1, v1.2.3, std::vector, a::b":  "1.2.3.4.5, 300.1.1.1, v1.2.3, std::vector, a::b",

		// Keys.
		"sk-proj-abcDEF1234567890abcd":                                          "[api_key]",
		"key=sk-ant-api03-AAAAbbbb1111cccc2222":                                 "key=[api_key]",
		"AKIAIOSFODNN7EXAMPLE, AIzaSyA1234567890abcdefghijklmnopqrstu":          "[api_key], [api_key]",
		"ghp_abcdefghijklmnopqrstuvwxyz0123456789":                              "[api_key]",
		"Authorization: Bearer abc123def456ghi":                                 "Authorization: [api_key]",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123_-x":                 "[api_key]",
		"swy_live_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG123456":            "[api_key]",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----!": "[api_key]!",
		"-----BEGIN PRIVATE KEY-----\nbroken off":                               "[api_key]",
		"-----BEGIN CERTIFICATE-----\nMIIE":                                     "-----BEGIN CERTIFICATE-----\nMIIE",
		"sk-learn-is-a-library-of-python, the bearer of bad news":               "sk-learn-is-a-library-of-python, the bearer of bad news",

		"": "", "nothing to see": "nothing to see", "日本語": "日本語",
	} {
		if got, _ := text(t, in); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
}

func TestKinds(t *testing.T) {
	if _, kinds := text(t, "a@b.com +4915112345678 4111111111111111 DE89370400440532013000 10.0.0.1 sk-abcdefghijklmnop1"); kinds != "api_key card email iban ip phone" {
		t.Error(kinds)
	}
}

// Example account numbers of many countries, in one piece and in groups.
func TestAccountsOfManyCountries(t *testing.T) {
	for account := range strings.FieldsSeq(`AT611904300234573201 BE68539007547034 CH9300762011623852957 CZ6508000000192000145399 DK5000400440116243
		ES9121000418450200051332 FI2112345600000785 FR1420041010050500013M02606 GR1601101250000000012300695 HU42117730161111101800000000
		IE29AIBK93115212345678 IT60X0542811101000000123456 LU280019400644750000 NL91ABNA0417164300 PL61109010140000071219812874
		PT50000201231234567890154 SE4550000000058398257466 TR330006100519786457841326 SA0380000000608010167519 BR1800360305000010009795493C1`) {
		var grouped strings.Builder
		for i := range len(account) {
			if i > 0 && i%4 == 0 {
				_ = grouped.WriteByte(' ')
			}
			_ = grouped.WriteByte(account[i])
		}
		for _, form := range []string{account, strings.ToLower(account), grouped.String()} {
			if got, _ := text(t, "to "+form+"."); got != "to [iban]." {
				t.Errorf("%s: %s", form, got)
			}
		}
	}
}

func TestPatterns(t *testing.T) {
	r := redact.New([]redact.Pattern{{"project", regexp.MustCompile(`PRJ-\d+`)}, {"empty", regexp.MustCompile(`x*`)}})
	found := redact.Kinds{}
	if got := r.Text("PRJ-17 of ada@prj-17.example, xxPRJ-1", found); got != "[project] of [email], [empty][project]" {
		t.Error(got)
	}
	if diff := cmp.Diff([]string{"email", "empty", "project"}, found.Sorted()); diff != "" {
		t.Error(diff)
	}
}

func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"ada@example.com","b":[1,true,null,"plain"]}`:                                  `{"a":"[email]","b":[1,true,null,"plain"]}`,
		`{"ada@example.com" : "x"}`:                                                          `{"[email]" : "x"}`,
		`{"card":4111111111111111,"n":-1.5e3,"p":0.4111111111111111}`:                        `{"card":"[card]","n":-1.5e3,"p":0.4111111111111111}`,
		`{"at":"ada\u0040example.com","q":"say \"hi\" to 10.0.0.1"}`:                         `{"at":"[email]","q":"say \"hi\" to [ip]"}`,
		`{"arguments":"{\"card\":4111111111111111,\"to\":\"a@b.io\"}"}`:                      `{"arguments":"{\"card\":\"[card]\",\"to\":\"[email]\"}"}`,
		`{"mcp_servers":[{"url":"https://mcp.example","authorization_token":"hunter two"}]}`: `{"mcp_servers":[{"url":"https://mcp.example","authorization_token":"[api_key]"}]}`,
		`{"tools":[{"headers":{"X-Api-Key" : ["a","b"]},"authorization":"c"},"d"]}`:          `{"tools":[{"headers":{"X-Api-Key" : "[api_key]"},"authorization":"[api_key]"},"d"]}`,
		`{"arguments":"{\"password\":\"hunter2\",\"to\":\"bert\"}"}`:                         `{"arguments":"{\"password\":\"[api_key]\",\"to\":\"bert\"}"}`,
		`{"properties":{"password":{"type":"string"}}}`:                                      `{"properties":{"password":{"type":"string"}}}`,
		`{"url":"data:image/png;base64,iVBORw0KGgo="}`:                                       `{"url":"data:image/png;base64,[binary, 12 characters]"}`,
		`{"base64":"` + strings.Repeat("QUJD", 256) + `"}`:                                   `{"base64":"[binary, 1024 characters]"}`,
		`"ada@example.com"`:         `"[email]"`,
		`not json, ada@example.com`: `"not json, [email]"`,
		`{"a":"<&>"}`:               `{"a":"<&>"}`,
		``:                          ``,
	} {
		if got := string(new(redact.Redactor).JSON([]byte(in), redact.Kinds{})); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

// Redacting a text twice finds nothing the second time, and the result is valid JSON.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":"ada@example.com"}`, `["4111 1111 1111 1111",4111111111111111,"{\"a\":\"10.0.0.1\"}"]`, `"+49 171 1234567 \ud83d\ude00 \ud800"`,
		`{"DE89 3704 0044 0532 0130 00":1e400}`, "\"\xff sk-abcdefghijklmnop1\"", `"a@@b.com..@c.de"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		r := new(redact.Redactor)
		found := redact.Kinds{}
		out := r.JSON([]byte(in), found)
		if in != "" && !json.Valid(out) {
			t.Fatalf("%q became %q", in, out)
		}
		if len(found) == 0 && json.Valid([]byte(in)) && string(out) != in {
			t.Fatalf("%q changed to %q, and nothing was found", in, out)
		}
		plain := r.Text(in, redact.Kinds{})
		for _, at := range []string{"ada@example.com", "4111111111111111", "DE89370400440532013000"} {
			if strings.Contains(r.Text(in+" "+at+" ", redact.Kinds{}), " "+at+" ") {
				t.Fatalf("%q hides %s", in, at)
			}
		}
		_ = plain
	})
}

// The time grows linearly with the length, for every kind of text. Eight times the text takes at most 48 times as long
// in at least one of several tries, because the machine may be busy with other work. Quadratic time would take 64 times
// as long.
func TestLinear(t *testing.T) {
	for _, piece := range []string{"a", "1", "@", ".", "a.", "a@", "4", "41", "1 ", "0", "00 ", "+", "+1", "(", ":", "a:", "1.1.", "sk-", "eyJ", "-----BEGIN PRIVATE KEY", "DE", "DE89 ", "bearer ", "%40", `\"`, "{", "[", "\u00a0"} {
		took := func(n int) time.Duration {
			in := strings.Repeat(piece, n/len(piece))
			start := time.Now()
			new(redact.Redactor).Text(in, redact.Kinds{})
			return time.Since(start)
		}
		linear := false
		for range 20 {
			if linear = took(1<<17) <= 8*6*took(1<<14); linear {
				break
			}
		}
		if !linear {
			t.Errorf("%q: 128 KiB take more than 48 times as long as 16 KiB", piece)
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	in := []byte(`{"messages":[` + strings.Repeat(`{"role":"user","content":"Please write to Ada (ada@example.com, +49 171 1234567) about invoice 2026-11-21 of 12,50 EUR, and then go on with a long sentence that holds nothing at all."},`, 500) + `{}]}`)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		new(redact.Redactor).JSON(in, redact.Kinds{})
	}
}
