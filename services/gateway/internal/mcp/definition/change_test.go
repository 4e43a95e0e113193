package definition

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// listed returns a definition of a version.
func listed(name string, version byte) Definition {
	return Definition{Name: name, Digest: Digest{version, name[0]}, Text: fmt.Appendf(nil, `{"v":%d}`, version)}
}

// apply does what the store does with changes.
func apply(stored []Known, c *Changes) []Known {
	for i, k := range stored {
		same := func(other Known) bool { return other.Name == k.Name && other.Digest == k.Digest }
		if slices.ContainsFunc(c.Back, same) {
			stored[i].Present = true
		}
		if slices.ContainsFunc(c.Gone, same) {
			stored[i].Present = false
		}
	}
	stored = slices.DeleteFunc(stored, func(k Known) bool {
		return slices.ContainsFunc(c.Dropped, func(d Known) bool { return d.Name == k.Name && d.Digest == k.Digest })
	})
	for _, d := range c.New {
		stored = append(stored, Known{Name: d.Name, Digest: d.Digest, Status: Pending, Present: true})
	}
	return stored
}

// decide does what the store does with a review of a tool's present definition.
func decide(stored []Known, name string, status Status, at time.Time) []Known {
	i := slices.IndexFunc(stored, func(k Known) bool { return k.Name == name && k.Status == Pending })
	if i < 0 {
		return stored
	}
	stored[i].Status, stored[i].ReviewedAt = status, at
	digest := stored[i].Digest
	return slices.DeleteFunc(stored, func(k Known) bool {
		return status == Approved && k.Name == name && k.Status == Approved && k.Digest != digest
	})
}

func TestDecide(t *testing.T) {
	approved := Known{Name: "a", Digest: Digest{1, 'a'}, Status: Approved, Present: true, ReviewedAt: noon}
	pending := Known{Name: "b", Digest: Digest{1, 'b'}, Status: Pending, Present: true}
	gone := approved
	gone.Present = false
	for name, test := range map[string]struct {
		listed                     []Definition
		stored                     []Known
		fresh, back, gone, dropped int
		added, changed, vanished   string
	}{
		"the first":      {[]Definition{listed("a", 1), listed("b", 1)}, nil, 2, 0, 0, 0, "a b", "", ""},
		"nothing new":    {[]Definition{listed("a", 1), listed("b", 1)}, []Known{approved, pending}, 0, 0, 0, 0, "", "", ""},
		"a change":       {[]Definition{listed("a", 2)}, []Known{approved}, 1, 0, 1, 0, "", "a", ""},
		"a change back":  {[]Definition{listed("a", 1)}, []Known{gone, {Name: "a", Digest: Digest{2, 'a'}, Status: Pending, Present: true}}, 0, 1, 0, 1, "", "a", ""},
		"another change": {[]Definition{listed("b", 2)}, []Known{pending}, 1, 0, 0, 1, "", "b", ""},
		"vanished":       {nil, []Known{approved, pending}, 0, 0, 1, 1, "", "", "a b"},
		"back":           {[]Definition{listed("a", 1)}, []Known{gone}, 0, 1, 0, 0, "a", "", ""},
	} {
		c := Decide(test.listed, test.stored)
		if len(c.New) != test.fresh || len(c.Back) != test.back || len(c.Gone) != test.gone || len(c.Dropped) != test.dropped {
			t.Errorf("%s: %+v", name, c)
		}
		if got := strings.Join(c.Added, " ") + "/" + strings.Join(c.Changed, " ") + "/" + strings.Join(c.Vanished, " "); got != test.added+"/"+test.changed+"/"+test.vanished {
			t.Errorf("%s: names %s", name, got)
		}
		if c.Empty() != (test.fresh+test.back+test.gone+test.dropped == 0) {
			t.Errorf("%s: empty %v", name, c.Empty())
		}
	}
}

// Whatever a server lists and people decide, only definitions that were approved may be called, no tool of a server whose
// reviewed definition waits may be, and what is stored of a tool is bounded.
func TestReviewsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stored []Known
		present := make(map[string]Digest)
		approved := make(map[string]Digest) // The last one of each tool.
		rejected := make(map[Digest]bool)
		at := noon
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			at = at.Add(time.Minute)
			if rapid.Bool().Draw(t, "list") {
				var list []Definition
				clear(present)
				for _, name := range []string{"a", "b", "c"} {
					if version := rapid.IntRange(0, 20).Draw(t, name); version > 0 {
						list = append(list, listed(name, byte(version)))
						present[name] = list[len(list)-1].Digest
					}
				}
				c := Decide(list, stored)
				if stored = apply(stored, &c); !settled(list, stored) {
					t.Fatal("the same listing changes something again")
				}
			} else {
				name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tool")
				status := rapid.SampledFrom([]Status{Approved, Rejected}).Draw(t, "decision")
				pending := slices.ContainsFunc(stored, func(k Known) bool { return k.Name == name && k.Status == Pending })
				stored = decide(stored, name, status, at)
				if pending && status == Approved {
					approved[name] = present[name]
				} else if pending {
					rejected[present[name]] = true
				}
			}
			changed := false
			for name, digest := range present {
				before, ok := approved[name]
				state := slices.IndexFunc(stored, func(k Known) bool { return k.Name == name && k.Present })
				changed = changed || ok && before != digest && stored[state].Status == Pending
			}
			e := NewEntry(toolserver.Server{}, 1, stored)
			for _, name := range []string{"a", "b", "c"} {
				digest, listed := present[name]
				want := listed && !changed && approved[name] == digest
				tool, err := e.Check(name)
				if (err == nil) != want || err == nil && tool.Digest != digest {
					t.Fatalf("%s: %v, want to be callable: %v", name, err, want)
				}
			}
			var latest []Definition
			for _, name := range slices.Sorted(maps.Keys(present)) {
				latest = append(latest, Definition{Name: name, Digest: present[name]})
			}
			if e.Listing() != Sum(latest) {
				t.Fatal("the entry is not of the latest listing")
			}
			if len(stored) > 3*(2+maxRejected+1) {
				t.Fatalf("%d definitions are stored", len(stored))
			}
		}
	})
}

// settled reports whether a listing changes nothing.
func settled(list []Definition, stored []Known) bool {
	c := Decide(list, stored)
	return c.Empty()
}

func TestIndependent(t *testing.T) {
	s := toolserver.Server{CreatedBy: "ada", MovedBy: "carol"}
	for review, want := range map[Review]error{
		{By: "bob"}: nil, {By: "ada"}: ErrNotIndependent, {By: "ＡＤＡ"}: ErrNotIndependent, {By: "Carol "}: ErrNotIndependent,
		{By: "bob", User: "ada"}: ErrNotIndependent, {By: "bob", User: "carol"}: ErrNotIndependent, {By: "bob", User: "bob"}: nil,
	} {
		if err := review.Independent(&s); !errors.Is(err, want) {
			t.Errorf("%+v: %v", review, err)
		}
	}
	s.MovedBy = ""
	if err := (&Review{By: "bob"}).Independent(&s); err != nil {
		t.Errorf("of a server that was never moved: %v", err)
	}
}

func TestOneDecision(t *testing.T) {
	r := Reviewed{Definition: listed("a", 1), Status: Pending, Present: true}
	other := r
	other.Present = false
	v := &Review{Verdict: Approve, By: "bob", Reason: "read it"}
	if _, err := r.Decide(v, Digest{2}, noon); !errors.Is(err, ErrOther) {
		t.Errorf("another digest: %v", err)
	}
	if _, err := other.Decide(v, r.Digest, noon); !errors.Is(err, ErrNoTool) {
		t.Errorf("one that is listed no longer: %v", err)
	}
	decided, err := r.Decide(v, r.Digest, noon)
	if err != nil || decided.Status != Approved || decided.ReviewedBy != "bob" || decided.Reason != "read it" || !decided.ReviewedAt.Equal(noon) {
		t.Errorf("%+v, %v", decided, err)
	}
	if _, err := decided.Decide(&Review{Verdict: Reject, By: "eve"}, r.Digest, noon); !errors.Is(err, ErrNotPending) {
		t.Errorf("twice: %v", err)
	}
}
