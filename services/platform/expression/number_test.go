package expression_test

import (
	"strconv"
	"strings"
	"testing"

	"switchyard.dev/services/platform/expression"
	"switchyard.dev/services/platform/testkit/growth"
)

// Whole numbers of 64 bits differ from their neighbours, however they are written and with whatever type they are
// compared.
func TestNumbersAreExact(t *testing.T) {
	e := engine(t)
	evaluate := func(n, text string) expression.Result {
		t.Helper()
		compiled, err := e.Compile(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		result, _ := compiled.Evaluate(values(t, `{"n":`+n+`}`))
		return result
	}
	ladder := []struct{ literal, text string }{
		{"-1e300", "-1e300"},
		{"", "-9223372036854775809"},
		{"-9223372036854775808", "-9223372036854775808"},
		{"-9223372036854775807", "-9223372036854775807"},
		{"-9007199254740993", "-9007199254740993.0"},
		{"-9007199254740992", "-9007199254740992"},
		{"-0.5", "-0.5"},
		{"0", "-0"},
		{"1", "1"},
		{"1.5", "1.5"},
		{"9007199254740992", "9007199254740992.00"},
		{"9007199254740993", "9.007199254740993e15"},
		{"9007199254740994", "9007199254740994"},
		{"9223372036854775806", "9223372036854775806"},
		{"9223372036854775807", "9223372036854775807.0"},
		{"9223372036854775808u", "9223372036854775808"},
		{"9223372036854775809u", "9223372036854775.809E3"},
		{"12345678901234567890u", "12345678901234567890"},
		{"12345678901234567891u", "12345678901234567891"},
		{"18446744073709551614u", "18446744073709551614"},
		{"18446744073709551615u", "0.00018446744073709551615e23"},
		{"", "18446744073709551616"},
		{"1e300", "1e300"},
	}
	for i, n := range ladder {
		for j, to := range ladder {
			if to.literal == "" {
				continue
			}
			for operator, want := range map[string]bool{"==": i == j, "!=": i != j, "<": i < j, "<=": i <= j, ">": i > j, ">=": i >= j} {
				result := map[bool]expression.Result{true: expression.True, false: expression.False}[want]
				for _, text := range []string{"args.n " + operator + " " + to.literal, "!(args.n " + operator + " " + to.literal + ")"} {
					if got := evaluate(n.text, text); got != result {
						t.Errorf("n = %s: %s is %v, want %v", n.text, text, got, result)
					}
					result = map[bool]expression.Result{true: expression.True, false: expression.False}[!want]
				}
			}
			if got := evaluate(n.text, "args.n in ["+to.literal+"]"); (got == expression.True) != (i == j) {
				t.Errorf("n = %s: in [%s] is %v", n.text, to.literal, got)
			}
		}
	}
}

// Small numbers keep the type in which they are written, because arithmetic depends on it.
func TestNumbersKeepTheirType(t *testing.T) {
	e := engine(t)
	for text, want := range map[string]string{
		"1": "int", "-9223372036854775808": "int", "9223372036854775807": "int", "9223372036854775808": "uint",
		"18446744073709551615": "uint", "18446744073709551616": "double", "100.0": "double", "1e2": "double",
		"9007199254740991.0": "double", "9007199254740992.0": "int", "1e19": "uint", "1e400": "double", "-1e400": "double",
		"0.1": "double", "9007199254740992.5": "double",
	} {
		compiled, err := e.Compile("type(args.n) == " + want)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := compiled.Evaluate(values(t, `{"n":`+text+`}`)); got != expression.True {
			t.Errorf("%s is no %s", text, want)
		}
	}
}

func TestNumbersGrowsLinearly(t *testing.T) {
	var rows []growth.Row
	for name, number := range map[string][2]string{
		"digits": {"1", ""}, "zeros behind": {"9007199254740993.", ""}, "zeros before": {"0.", "9007199254740993"},
	} {
		rows = append(rows, growth.Row{Name: name, Make: func(n int) func() {
			text := []byte(`{"n":` + number[0] + strings.Repeat("0", n) + number[1] + "e" + strconv.Itoa(n) + `}`)
			return func() { _, _ = expression.Object(text) }
		}})
	}
	growth.Linear(t, rows...)
}
