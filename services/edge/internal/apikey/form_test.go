package apikey

import (
	"fmt"
	"hash/crc32"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/services/platform/secret"
)

func TestMintedKeys(t *testing.T) {
	seen := make(map[string]bool)
	digits := make(map[rune]int)
	for range 2000 {
		text := mint("test")
		if !WellFormed(text) || seen[text] || len(text) != len("swy_test_")+49 {
			t.Fatalf("bad or repeated key of %d characters", len(text))
		}
		seen[text] = true
		for _, c := range text[len("swy_test_"):][:randomDigits] {
			digits[c]++
		}
	}
	// 86,000 draws of 62 digits: 1387 each, standard deviation 37.
	for _, c := range base62 {
		if n := digits[c]; n < 1387-8*37 || n > 1387+8*37 {
			t.Errorf("digit %c came %d times, want about 1387", c, n)
		}
	}
}

func TestWellFormed(t *testing.T) {
	good := mint("live")
	swap := func(i int) string {
		b := []byte(good)
		b[i] = base62[(strings.IndexByte(base62, b[i])+1)%62]
		return string(b)
	}
	for name, text := range map[string]string{
		"empty":                  "",
		"prefix alone":           "swy_",
		"another prefix":         "swx" + good[3:],
		"another environment":    strings.Replace(good, "live", "test", 1),
		"no environment":         strings.Replace(good, "live", "", 1),
		"upper-case environment": strings.Replace(good, "live", "LIVE", 1),
		"environment too long":   mint(strings.Repeat("a", maxEnvironment+1)),
		"first digit changed":    swap(len("swy_live_")),
		"last digit changed":     swap(len(good) - 1),
		"one short":              good[:len(good)-1],
		"one long":               good + "0",
		"a space behind":         good + " ",
		"not base62":             good[:20] + "-" + good[21:],
		"huge":                   good + strings.Repeat("x", 1<<20),
	} {
		if WellFormed(text) {
			t.Errorf("%s: taken for a key", name)
		}
	}
	for i := range len(good) - len("swy_live_") { // CRC-32 finds every single change
		if WellFormed(swap(i + len("swy_live_"))) {
			t.Errorf("a change of digit %d went unseen", i)
		}
	}
}

var form = regexp.MustCompile(`^swy_[a-z0-9]{1,16}_[0-9A-Za-z]{49}$`)

// reference says the same in another way: a pattern and arithmetic on big numbers.
func reference(text string) bool {
	if !form.MatchString(text) {
		return false
	}
	split := len(text) - checkDigits
	// big.Int counts lower case before upper case in base 62.
	swap := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 32
		case r >= 'A' && r <= 'Z':
			return r + 32
		}
		return r
	}, text[split:])
	n, ok := new(big.Int).SetString(swap, 62)
	return ok && n.Cmp(big.NewInt(int64(crc32.ChecksumIEEE([]byte(text[:split]))))) == 0
}

func FuzzWellFormed(f *testing.F) {
	f.Add(mint("test"))
	f.Add(mint("a"))
	f.Add("swy__" + strings.Repeat("0", 49))
	f.Add("swy_test_" + strings.Repeat("é", 49))
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := WellFormed(text), reference(text); got != want {
			t.Errorf("WellFormed(%q) = %v, want %v", text, got, want)
		}
	})
}

func TestDigest(t *testing.T) {
	text := mint("test")
	one := pepperOf(t, strings.Repeat("1", 32))
	if again := one.Digest(text); one.Digest(text) != again || again == one.Digest(mint("test")) {
		t.Error("a digest doesn't stand for its key")
	}
	if one.Digest(text) == pepperOf(t, strings.Repeat("2", 32)).Digest(text) {
		t.Error("the pepper makes no difference")
	}
	// RFC 4231, test case 2, with the key filled up with zeros as HMAC itself does.
	got := fmt.Sprintf("%x", pepperOf(t, "Jefe"+strings.Repeat("\x00", 28)).Digest("what do ya want for nothing?"))
	if want := "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"; got != want {
		t.Errorf("digest = %s, want %s", got, want)
	}
	if _, err := NewPepper(secret.New("short")); err == nil || strings.Contains(err.Error(), "short") {
		t.Errorf("short pepper: %v", err)
	}
}

func pepperOf(tb testing.TB, text string) *Pepper {
	tb.Helper()
	p, err := NewPepper(secret.New(text))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}
