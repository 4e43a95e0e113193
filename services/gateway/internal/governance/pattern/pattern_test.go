package pattern

import "testing"

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"acme", "acme", true},
		{"acme", "acme2", false},
		{"*", "", true},
		{"*", "x", true},
		{"a*", "a", true},
		{"a*", "ba", false},
		{"*a", "ba", true},
		{"*a", "ab", false},
		{"a*c", "abc", true},
		{"a*c", "ac", true},
		{"a*a", "a", false},
		{"a*b*c", "a-b-c", true},
		{"a*b*c", "acb", false},
		{"*b*", "abc", true},
		{"*bc*bc", "abc", false},
		{"**", "x", true},
		{"", "", true},
		{"", "x", false},
	} {
		if got := Matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q with %q: %t", c.pattern, c.name, got)
		}
	}
}
