package amount

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/services/platform/testkit/growth"
)

func cents(tb testing.TB, text string) Amount {
	tb.Helper()
	a, err := ParseCents(text)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func TestParseCents(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "12.50": "12.5", "-3.0000000001": "-3.0000000001", "1000000000000": "1000000000000", "00.10": "0.1",
	} {
		if m, err := ParseCents(text); err != nil || m.String() != want {
			t.Errorf("%q: %s, %v, want %s", text, m, err, want)
		}
	}
	for _, text := range []string{"", ".", "1.", ".5", "+1", "--1", "1e3", "0x1", "1,5", "NaN", " 1", "1.00000000001", "1.2.3", "-", strings.Repeat("9", 40)} {
		if m, err := ParseCents(text); err == nil {
			t.Errorf("%q: %s, want an error", text, m)
		}
	}
	if m, err := FromCents(0.1); err != nil || m.String() != "0.1" {
		t.Errorf("%s, %v: a double is the decimal that was written", m, err)
	}
	if got := cents(t, "1234.5678").Cents(); got != 1234.5678 {
		t.Error(got)
	}
}

// A number of cents on the wire is the exact decimal: up to 1,000 USD to the pico-USD, beyond that with 15 digits.
func TestCentsAreDecimals(t *testing.T) {
	for text, want := range map[string]string{
		"1.1449": "1.1449", "-0.3": "-0.3", "0.0000000001": "1e-10", "99999.9999999999": "99999.9999999999",
		"12345678.9012345678": "12345678.9012346", "922337203685477.5807": "922337203685478", "1000000000000": "1000000000000",
	} {
		if got, err := json.Marshal(cents(t, text).Cents()); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		pico := rapid.Int64Range(-1e15+1, 1e15-1).Draw(t, "pico")
		a := Of(pico)
		if got := strconv.FormatFloat(a.Cents(), 'f', -1, 64); got != a.String() {
			t.Fatalf("%d pico-USD: %s, want %s", pico, got, a)
		}
		if again, err := FromCents(a.Cents()); err != nil || again.pico.Cmp(&a.pico) != 0 {
			t.Fatalf("%s reads as %s, %v", a, again, err)
		}
		b := Of(rapid.Int64Range(-1e14, 1e14).Draw(t, "other"))
		if left := Nearest(a.Cents()).Minus(Nearest(b.Cents())); left.pico.Cmp(new(big.Int).Sub(&a.pico, &b.pico)) != 0 {
			t.Fatalf("%s less %s: %s", a, b, left)
		}
	})
}

// FromCents refuses numbers that a float64 can't hold as written.
func TestFromCents(t *testing.T) {
	for _, refused := range []float64{1.1448999999999998, 0.30000000000000004, 12345678.901234567, 1e-11, 1e33} {
		if a, err := FromCents(refused); err == nil {
			t.Errorf("%v: %s, want an error", refused, a)
		}
	}
}

func TestGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _, _ = ParseCents(text) })...)
}
