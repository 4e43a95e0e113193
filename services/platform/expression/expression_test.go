package expression_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/expression"
	"switchyard.dev/services/platform/testkit/growth"
)

func engine(tb testing.TB) *expression.Engine {
	tb.Helper()
	e, err := expression.New(expression.Variable{Name: "who"}, expression.Variable{Name: "call.at", Kind: expression.Time},
		expression.Variable{Name: "args", Kind: expression.JSON})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func values(tb testing.TB, args string) map[string]any {
	tb.Helper()
	object, err := expression.Object([]byte(args))
	if err != nil {
		tb.Fatal(err)
	}
	return map[string]any{"who": "ann", "call.at": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "args": object}
}

// evaluator returns an Evaluator over the same values as values does.
func evaluator(e *expression.Engine, organization, args string) *expression.Evaluator {
	return e.Evaluator(organization, map[string]any{"who": "ann", "call.at": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, "args", []byte(args))
}

func TestEvaluate(t *testing.T) {
	e := engine(t)
	const args = `{"n": 3, "x": 12.5, "round": 100.0, "big": 9007199254740993, "text": "a", "yes": true, "none": null, "list": [1, 2.5]}`
	with := values(t, args)
	for text, want := range map[string]expression.Result{
		"true":         expression.True,
		"who == 'ann'": expression.True,
		"call.at < timestamp('2026-01-01T00:00:00Z')": expression.False,
		"args.n == 3 && args.n == 3.0":                expression.True, // Comparisons take both kinds of numbers.
		"args.n > 2.5 && args.x > 12":                 expression.True,
		"args.round == 100":                           expression.True,
		"args.n + 1 == 4":                             expression.True,
		"args.n + 1.0 == 4.0":                         expression.Failed, // Arithmetic doesn't.
		"double(args.n) + 1.0 == 4.0":                 expression.True,
		"args.big == 9007199254740992":                expression.False,
		"args.yes":                                    expression.True,
		"args.none == null":                           expression.True,
		"args.text":                                   expression.Failed,
		"args.text > 1":                               expression.Failed,
		"args.n / 0 == 1":                             expression.Failed,
		"args.absent == 1":                            expression.Absent,
		"args.list[2] == 1":                           expression.Absent,
		"has(args.absent)":                            expression.False,
		"args.list.exists(i, i > 2)":                  expression.True,
		"{'a': args.n}.a == args.n":                   expression.True,
		strings.Repeat("args.text in ['x'] || ", 40) + "args.n != args.n": expression.False,
		"1 in args.list && !(9 in args.list)":                             expression.True,
		"args.list + [3] == [1, 2.5, 3]":                                  expression.True,
		"args != args":                                                    expression.False,
		"args == args.absent":                                             expression.Absent,
		"args.absent in args.list":                                        expression.Absent,
		"args.n in args.text":                                             expression.Failed,
	} {
		compiled, err := e.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, cost := compiled.Evaluate(with)
		again, same := evaluator(e, "acme", args).Evaluate(text)
		if got != want || again != want || cost != same || cost == 0 && strings.Contains(text, ".") {
			t.Errorf("%s: %v for %d, kept %v for %d, want %v", text, got, cost, again, same, want)
		}
	}
	without, err := e.Compile("who == 'ann'")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := without.Evaluate(map[string]any{}); got != expression.Failed {
		t.Errorf("without a value: %v", got)
	}
}

func TestCompileRefuses(t *testing.T) {
	e := engine(t)
	for text, want := range map[string]string{
		"":                         "line 1, column ",
		"args.a >":                 "line 1, column 9: ",
		"1 + 1":                    "line 1, column 1: is of type int, must be bool",
		"true &&\n  other":         "line 2, column 3: undeclared reference to 'other'",
		"who.matches('a')":         "line 1, column 12: undeclared reference to 'matches'",
		"who == 1":                 "line 1, column 5: found no matching overload",
		"[1].map(a, {a: a}) == []": "the keys of a map must be constants",
		"{who: 1} == {}":           "the keys of a map must be constants",
		"[1]" + strings.Repeat(".map(a, [a])", 12) + " == []":                "must not hold more than 32 lists",
		strings.Repeat("[", 33) + "who" + strings.Repeat("]", 33) + " == []": "must not hold more than 32 lists",
		"args.a.exists(x, x.exists(y, y.exists(z, z.exists(w, w == x))))":    "costs too much",
		strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60):           "line ",
		"true || '" + strings.Repeat("a", expression.MaxSize) + "' == ''":    "line ",
	} {
		_, err := e.Compile(text)
		wrong, ok := errors.AsType[*expression.Error](err)
		if !ok || !strings.HasPrefix(wrong.Rule, want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func TestUses(t *testing.T) {
	e := engine(t)
	for text, want := range map[string][3]bool{
		"true": {}, "who == 'args'": {true, false, false}, "has(args.who)": {false, false, true},
		"args['who'] == who || call.at == call.at": {true, true, true}, "[1].all(x, x > 0)": {},
	} {
		p, err := e.Compile(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := [3]bool{p.Uses("who"), p.Uses("call.at"), p.Uses("args")}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestObject(t *testing.T) {
	for _, text := range []string{"", "null", "[1]", `"a"`, "{"} {
		if object, err := expression.Object([]byte(text)); !errors.Is(err, expression.ErrNoObject) {
			t.Errorf("%q: %v, %v", text, object, err)
		}
	}
	object, err := expression.Object([]byte(`{"a":[1,1.5,9223372036854775808,{"b":-2}]}`))
	if err != nil {
		t.Fatal(err)
	}
	list := object["a"].([]any)
	if list[0] != int64(1) || list[1] != 1.5 || list[2] != uint64(1<<63) || list[3].(map[string]any)["b"] != int64(-2) {
		t.Errorf("%#v", object)
	}
}

// mostTime is how much processor time ten evaluations may take, many times what they take on an idle machine.
const mostTime = 400 * time.Millisecond

// Values that an expression makes may hold others in exponential number. To compile and to evaluate such an expression takes
// no more than any other of its length.
func TestMadeValuesAreBounded(t *testing.T) {
	e := engine(t)
	with := values(t, `{"a":1}`)
	var inputs []growth.Input
	for _, step := range []string{
		".map(a,{a:a})", ".map(a,{'x':a,'y':a})", ".map(a,[a,a])", ".map(a,a+a)", ".map(a,[a].map(b,[b,b]))", ".map(a,[[[[a]]]])", ".map(a,a==1?[a]:[a,a])",
		".map(a,dyn([a,a]))",
	} {
		for _, end := range []string{"==[]", ".exists(a,a==a)", ".exists(a,a!=a)", ".exists(a,a in [a])", ".exists(a,size(a)>3)", ".exists(a,1 in a)"} {
			for _, start := range []string{"[1]", "[[1]]"} {
				inputs = append(inputs, growth.Repeat(start+step+end, start, step, end))
			}
		}
	}
	growth.Linear(t, growth.EachText(growth.UpTo(expression.MaxSize, inputs), func(text string) {
		if p, err := e.Compile(text); err == nil {
			p.Evaluate(with)
		}
	})...)
}

// An evaluator parses the object once, and charges for it.
func TestEvaluatorParsesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t)
		large := `{"xs":[` + strings.Repeat("1,", 1<<19) + `1]}`
		evaluations := func(parses int) (n int) {
			for range parses {
				v := evaluator(e, fmt.Sprint("with ", parses), large)
				for range 1000 {
					if result, _ := v.Evaluate("args.xs[0] == 1"); result != expression.True {
						return n
					}
					n++
				}
			}
			return n
		}
		if n := evaluations(5); n != 5000 {
			t.Errorf("%d evaluations of five objects, want 5,000", n)
		}
		if n := evaluations(100); n > 50_000 {
			t.Errorf("%d evaluations of a hundred objects of 1 MiB, which take more than the organization's share", n)
		}
	})
}

// An organization that has compiled too much is refused until it may compile again. What it has kept is evaluated.
func TestCheckIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t)
		long := func(n int) string { return fmt.Sprintf("who == '%s%d'", strings.Repeat("x", 900), n) }
		checked := 0
		var err error
		for ; err == nil && checked < 10_000; checked++ {
			err = e.Check("hostile", long(checked))
		}
		refused, ok := errors.AsType[*apierr.Error](err)
		if !ok || refused.Kind != apierr.KindRateLimited || refused.RetryAfter == 0 || checked < 50 {
			t.Fatalf("after %d: %v, want 429 with Retry-After", checked, err)
		}
		if got, _ := evaluator(e, "hostile", "{}").Evaluate(long(checked - 2)); got != expression.False {
			t.Errorf("a kept expression: %v", got)
		}
		if err := e.Check("acme", long(0)); err != nil {
			t.Errorf("another organization: %v", err)
		}
		time.Sleep(time.Second)
		if err := e.Check("hostile", long(checked)); err != nil {
			t.Errorf("a second later: %v", err)
		}
	})
}

// What an expression does at run time is bounded, whatever the value.
func TestCostIsBounded(t *testing.T) {
	e := engine(t)
	text, err := json.Marshal(map[string]any{"xs": strings.Split(strings.Repeat("text ", 5000), " ")})
	if err != nil {
		t.Fatal(err)
	}
	with := values(t, string(text))
	for _, costly := range []string{
		"args.xs.all(x, args.xs.all(y, x.size() + y.size() < 100))",
		"args.xs.all(x, args == args)",
		"args.xs.all(x, !('y' in args.xs))",
		"args.xs.all(x, timestamp('2026-01-01T00:00:00Z').getHours('Europe/Berlin') >= 0)",
		"args.xs.all(x, duration('100h1m1s') > duration('1s'))",
	} {
		p, err := e.Compile(costly)
		if err != nil {
			t.Fatal(err)
		}
		if got, cost := p.Evaluate(with); got != expression.Costly || cost < expression.MaxCost {
			t.Errorf("%s: %v for %d", costly, got, cost)
		}
		took := growth.ProcessorTime()
		for range 10 {
			p.Evaluate(with)
		}
		if took = growth.ProcessorTime() - took; took > mostTime {
			t.Errorf("%s: ten evaluations took %v", costly, took)
		}
	}
}

func TestExpressionGrowsLinearly(t *testing.T) {
	e := engine(t)
	growth.Linear(t, growth.Each(growth.Around(`{"a":`, growth.UpTo(16<<10, growth.ValidJSON), "}"), func(text []byte) {
		_, _ = expression.Object(text)
	})...)
	growth.Linear(t, growth.EachText(growth.UpTo(expression.MaxSize, growth.Text), func(text string) { _, _ = e.Compile(text) })...)
}

// Whatever compiles is evaluated within its bounds, and compiled anew it has the same result.
func FuzzExpression(f *testing.F) {
	e := engine(f)
	f.Add("args.xs.exists(x, x.a == 2)", `{"xs":[{"a":1}]}`)
	f.Add("args.a > 1.0 || who == 'x'", `{"a":1e999}`)
	f.Fuzz(func(t *testing.T, text, args string) {
		p, err := e.Compile(text)
		if err != nil {
			if _, ok := errors.AsType[*expression.Error](err); !ok {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		object, err := expression.Object([]byte(args))
		if err != nil {
			return
		}
		result, _ := p.Evaluate(map[string]any{"who": "ann", "call.at": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "args": object})
		// Maps have no order, so that what a loop over one costs may differ.
		if again, _ := evaluator(e, text, args).Evaluate(text); again != result && again != expression.Costly && result != expression.Costly {
			t.Errorf("%q: %v, then %v", text, result, again)
		}
	})
}
