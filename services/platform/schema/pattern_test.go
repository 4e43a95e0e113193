package schema

import (
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

// A pattern matches exactly what package regexp matches.
func TestPatternsMatchLikeRegexp(t *testing.T) {
	for _, expression := range []string{
		"", "a", "^a", "a$", "^$", "^a*$", "a|b|", "(a|b)*c", `\ba\b`, `\Ba`, "(?i)aB", "(?s)a.b", "a.b", "(?m)^b$", "[^a]", "a{2,3}", "é+", "[α-ω]b",
		"^[0-9a-f]{4}-[0-9a-f]{2}$", "(^a|b)c", `\Aa\z`, "(?i)é", "(a?){5}a{5}", "ab(c|$)", "x*", "(|a)+b", "(?i)k",
	} {
		compiled := patterns{compiled: make(map[string]*pattern)}
		got, err := compiled.compile(expression)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		want := regexp.MustCompile(expression)
		for _, text := range []string{
			"", "a", "b", "ab", "ba", "aab", "aB", "AB", "a\nb", "b\na", "é", "éé b", "É", "ωb", "c", "abc", "bc", "xabx", "12ab-0f", "a a", "aaaaa", "\u212a",
			"x" + strings.Repeat("y", 50) + "abc", "\xff", "a\xffb",
		} {
			if got.MatchString(text) != want.MatchString(text) {
				t.Errorf("%q on %q: %v, want %v", expression, text, !want.MatchString(text), want.MatchString(text))
			}
		}
	}
}

// A check costs at most 2 ms for a payload of up to 50 kB, and at most 40 ns for each byte of a larger one. Regular
// expressions cost at most 2 ms together.
func TestCheckCostIsBounded(t *testing.T) {
	hostile := "(?:x?[ab]){330}y$"
	compiled := patterns{compiled: make(map[string]*pattern)}
	p, err := compiled.compile(hostile)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1000, 50_000, 500_000} {
		most := max(2_000_000, 40*size)
		e := evaluation{cost: costOf(size), matcher: matcher{budget: maxCost}}
		if e.cost != most {
			t.Errorf("a payload of %d bytes may cost %d ns, want %d", size, e.cost, most)
		}
		e.matches(p, strings.Repeat("ab", 50)) // Earlier texts count, too.
		if e.matches(p, strings.Repeat("ab", size/2)) || size > 1000 && e.cost >= 0 {
			t.Errorf("%d bytes: %d ns are left of a pattern that takes longer", size, e.cost)
		}
		if slack := 2000 * 12 * 2; -e.cost > slack || -e.matcher.budget > slack { // the instructions of one character
			t.Errorf("%d bytes: the check went on for %d and %d ns", size, -e.cost, -e.matcher.budget)
		}
	}
	e := evaluation{cost: costOf(500_000), matcher: matcher{budget: maxCost}}
	if p, err = compiled.compile("^a"); err != nil {
		t.Fatal(err)
	}
	if !e.matches(p, "a") || e.cost < 19_000_000 {
		t.Errorf("after a short pattern %d ns are left for the rest of the check", e.cost)
	}
}

func TestPatternGrowsLinearly(t *testing.T) {
	compiled := patterns{compiled: make(map[string]*pattern)}
	p, err := compiled.compile(`(a|[^b]x?)*\bend$`)
	if err != nil {
		t.Fatal(err)
	}
	growth.Linear(t, growth.EachText(growth.UpTo(16<<10, growth.Text), func(text string) { p.MatchString(text) })...)
}

func FuzzPattern(f *testing.F) {
	f.Add("(a|b)*c$", "ababc")
	f.Add(`\bx?[^y]`, "é x")
	f.Fuzz(func(t *testing.T, expression, text string) {
		compiled := patterns{compiled: make(map[string]*pattern)}
		got, err := compiled.compile(expression)
		want, wrong := regexp.Compile(expression)
		if err != nil || wrong != nil || len(text) > 1000 {
			return
		}
		if matched := got.MatchString(text); matched && !want.MatchString(text) || !matched && want.MatchString(text) && len(text) < 100 {
			t.Errorf("%q on %q: %v", expression, text, matched)
		}
	})
}
