package reconcile

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/platform/apierr"
)

var (
	start = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	end   = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
)

func cents(text string) amount.Amount {
	m, err := amount.ParseCents(text)
	if err != nil {
		panic(err)
	}
	return m
}

func line(provider, model, amount string) Line { return Line{provider, model, cents(amount)} }

func metered(provider, model, cost string, calls int64) Metered {
	return Metered{Provider: provider, Model: model, Calls: calls, Cost: cents(cost)}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name      string
		tolerance string
		lines     []Line
		metered   []Metered
		status    Status
		want      []string
	}{
		{
			"to the pico", "0",
			[]Line{line("a", "m", "12.3400000001")},
			[]Metered{metered("a", "m", "12.3400000001", 3)},
			Matched,
			[]string{"a/m 12.3400000001 12.3400000001 3 matched"},
		},
		{"one pico beside", "0", []Line{line("a", "m", "12.3400000001")}, []Metered{metered("a", "m", "12.34", 3)}, Delta, []string{"a/m 12.3400000001 12.34 3 delta"}},
		{"just within", "1", []Line{line("a", "m", "13.34")}, []Metered{metered("a", "m", "12.34", 3)}, Matched, []string{"a/m 13.34 12.34 3 matched"}},
		{"just beyond", "1", []Line{line("a", "m", "11.3399999999")}, []Metered{metered("a", "m", "12.34", 3)}, Delta, []string{"a/m 11.3399999999 12.34 3 delta"}},
		{"billed, nothing metered", "1", []Line{line("a", "m", "5")}, nil, Delta, []string{"a/m 5 0 0 unexplained"}},
		{"billed less than the tolerance, nothing metered", "1", []Line{line("a", "m", "1")}, nil, Matched, []string{"a/m 1 0 0 matched"}},
		{
			"metered, no line bills it", "1",
			[]Line{line("a", "m", "5")},
			[]Metered{metered("a", "z", "9", 1), metered("a", "m", "5", 1), metered("a", "b", "2", 1)},
			Delta,
			[]string{"a/m 5 5 1 matched", "a/b 0 2 1 unbilled", "a/z 0 9 1 unbilled"},
		},
		{
			"the rest of a provider", "1",
			[]Line{line("a", "", "7"), line("a", "m", "5"), line("b", "", "1")},
			[]Metered{metered("a", "m", "5", 1), metered("a", "x", "3", 2), metered("a", "y", "4", 3), metered("b", "q", "1", 1)},
			Matched,
			[]string{"a/ 7 7 5 matched", "a/m 5 5 1 matched", "b/ 1 1 1 matched"},
		},
		{"a credit", "0", []Line{line("a", "m", "-2.5")}, nil, Delta, []string{"a/m -2.5 0 0 unexplained"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			result := Compare(Invoice{Start: start, End: end, Lines: c.lines, Tolerance: cents(c.tolerance)}, c.metered)
			var got []string
			for _, l := range result.Compared {
				got = append(got, fmt.Sprintf("%s/%s %s %s %d %s", l.Provider, l.Model, l.Amount, l.Metered, l.Calls, l.Status))
			}
			if diff := cmp.Diff(c.want, got); diff != "" || result.Status != c.status {
				t.Errorf("%s (-want +got):\n%s", result.Status, diff)
			}
		})
	}
}

// Each metered amount is in exactly one line, sums are exact, and the order of the metered amounts does not matter.
func TestNothingIsLostOrCountedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pico := rapid.Int64Range(-1e15, 1e18)
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		var invoice Invoice
		seen := make(map[string]bool)
		for range rapid.IntRange(1, 6).Draw(t, "lines") {
			l := Line{name.Draw(t, "provider"), rapid.SampledFrom([]string{"", "m", "n"}).Draw(t, "model"), amount.Pico(big.NewInt(pico.Draw(t, "amount")))}
			if key := l.Provider + "/" + l.Model; !seen[key] {
				seen[key] = true
				invoice.Lines = append(invoice.Lines, l)
			}
		}
		var all []Metered
		total := new(big.Int)
		for provider := range map[string]bool{"a": true, "b": true, "c": true} {
			for _, model := range []string{"m", "n", "o"} {
				cost := big.NewInt(rapid.Int64Range(0, 1e18).Draw(t, "cost"))
				total.Add(total, cost)
				all = append(all, Metered{Provider: provider, Model: model, Calls: 1, Cost: amount.Pico(cost)})
			}
		}
		result := Compare(invoice, all)
		sum, calls, matched := new(big.Int), int64(0), true
		for _, l := range result.Compared {
			sum.Add(sum, l.Metered.Pico())
			calls += l.Calls
			matched = matched && l.Status == Matched
		}
		if sum.Cmp(total) != 0 || result.Metered.Pico().Cmp(total) != 0 {
			t.Fatalf("lines of %s, %s metered, want %s", sum, result.Metered.Pico(), total)
		}
		if calls != int64(len(all)) {
			t.Fatalf("%d calls, want %d", calls, len(all))
		}
		if matched != (result.Status == Matched) {
			t.Fatalf("status %s, all lines matched %t", result.Status, matched)
		}
	})
}

func TestInvoiceCheckAndHash(t *testing.T) {
	good := Invoice{Start: start, End: end, Lines: []Line{line("a", "m", "1"), line("a", "", "2")}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for want, broken := range map[string]Invoice{
		"period_end: must be after": {Start: end, End: end, Lines: good.Lines},
		"lines: must hold":          {Start: start, End: end},
		"lines[1]: provider":        {Start: start, End: end, Lines: []Line{line("a", "m", "1"), line("a", "m", "2")}},
	} {
		if e := apierr.From(broken.Check()); !strings.HasPrefix(e.Text, want) || e.Kind != apierr.KindInvalid {
			t.Errorf("%v, want %s", e, want)
		}
	}
	other := good
	other.Lines = []Line{good.Lines[1], good.Lines[0]}
	if string(good.Hash()) != string(other.Hash()) {
		t.Error("the order of lines makes another invoice")
	}
	for name, change := range map[string]func(*Invoice){
		"ref": func(i *Invoice) { i.Ref = "x" }, "period": func(i *Invoice) { i.End = i.End.Add(time.Second) },
		"tolerance": func(i *Invoice) { i.Tolerance = cents("1") }, "amount": func(i *Invoice) { i.Lines = []Line{line("a", "m", "1.1"), line("a", "", "2")} },
		"names": func(i *Invoice) { i.Lines = []Line{line("a", "m2", "1"), line("a", "", "2")} },
	} {
		changed := good
		change(&changed)
		if string(changed.Hash()) == string(good.Hash()) {
			t.Errorf("%s makes no other invoice", name)
		}
	}
}

func TestParseCSV(t *testing.T) {
	lines, err := ParseCSV("\ufeffprovider,model,amount_cents\r\nopenai,gpt-5,12.50\nanthropic,,\"-3\"\n\"a,b\",\"x\"\"y\",0\n")
	want := []Line{line("openai", "gpt-5", "12.5"), line("anthropic", "", "-3"), line("a,b", `x"y`, "0")}
	if err != nil || fmt.Sprint(lines) != fmt.Sprint(want) {
		t.Errorf("%v, %v", lines, err)
	}
	for text, says := range map[string]string{
		"":                                       "csv: must begin with the line provider,model,amount_cents",
		"provider,model\n":                       "csv: must begin",
		"model,provider,amount_cents\n":          "csv: must begin",
		"provider,model,amount_cents\na,b\n":     "csv: line 2: must have the fields",
		"provider,model,amount_cents\na,b,1,2\n": "csv: line 2: must have the fields",
		"provider,model,amount_cents\na,b,1\n,b,1\n":                            "csv: line 3: provider: must be 1 to 64",
		"provider,model,amount_cents\na,b,1.5e3\n":                              `csv: line 2: amount_cents: "1.5e3" is not a decimal`,
		"provider,model,amount_cents\na,b,\n":                                   "csv: line 2: amount_cents",
		"provider,model,amount_cents\na,b,1000000000001\n":                      "csv: line 2: amount_cents: must be between",
		"provider,model,amount_cents\na,\"b,1\n":                                "csv: line",
		"provider,model,amount_cents\na,b\x01,1\n":                              "csv: line 2: model",
		"provider,model,amount_cents\n" + strings.Repeat("a,b,1\n", MaxLines+1): "csv: must hold at most 5000 lines",
	} {
		if _, err := ParseCSV(text); err == nil || !strings.HasPrefix(apierr.From(err).Text, says) {
			t.Errorf("%.60q: %v, want %s", text, err, says)
		}
	}
}

// Any text is read exactly, or refused with its position.
func FuzzParseCSV(f *testing.F) {
	f.Add("provider,model,amount_cents\nopenai,gpt-5,12.50\n")
	f.Add("provider,model,amount_cents\n\"a\",\"b\"\"\",-0.0000000001\r\n")
	f.Add("\ufeffprovider,model,amount_cents\n,,\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := ParseCSV(text)
		if err != nil {
			if e := apierr.From(err); e.Kind != apierr.KindInvalid || !strings.HasPrefix(e.Text, "csv: ") || len(e.Text) > 300 {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, l := range lines {
			again, err := amount.ParseCents(l.Amount.String())
			if err != nil || again.Pico().Cmp(l.Amount.Pico()) != 0 {
				t.Fatalf("%s became %s: %v", l.Amount, again, err)
			}
			if l.Provider == "" || len(l.Model) > maxModel {
				t.Fatalf("provider %q, model of %d bytes", l.Provider, len(l.Model))
			}
		}
	})
}
