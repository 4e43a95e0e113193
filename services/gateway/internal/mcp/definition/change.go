package definition

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// maxRejected is how many rejected definitions of a tool are kept that its server no longer lists, the latest.
const maxRejected = 10

// Known is a stored definition without its text.
type Known struct {
	Name    string
	Digest  Digest
	Status  Status
	Present bool
	// ReviewedAt is zero before the review.
	ReviewedAt time.Time
}

// Changes are what a listing changes in the store.
type Changes struct {
	// New are definitions that were not known, to be reviewed. Back were reviewed, and are listed again; Gone were
	// reviewed, and are listed no longer. Of Dropped nothing is kept: they were never reviewed, or rejected long ago.
	New                 []Definition
	Back, Gone, Dropped []Known
	// Added, Changed and Vanished are names of tools, for the audit: those that were not listed before, those with
	// another definition, and those that are listed no longer.
	Added, Changed, Vanished []string
}

// Empty reports whether a listing changes nothing.
func (c *Changes) Empty() bool {
	return len(c.New) == 0 && len(c.Back) == 0 && len(c.Gone) == 0 && len(c.Dropped) == 0
}

// identity identifies a definition of a server.
type identity struct {
	name   string
	digest Digest
}

// Decide compares a listing, sorted by name, with what is stored of its server.
func Decide(listed []Definition, stored []Known) (c Changes) {
	known, before := make(map[identity]Known, len(stored)), make(map[string]bool)
	for _, k := range stored {
		known[identity{k.Name, k.Digest}] = k
		before[k.Name] = before[k.Name] || k.Present
	}
	now, names := make(map[identity]bool, len(listed)), make(map[string]bool, len(listed))
	for _, d := range listed {
		id := identity{d.Name, d.Digest}
		now[id], names[d.Name] = true, true
		k, ok := known[id]
		switch {
		case !ok:
			c.New = append(c.New, d)
		case !k.Present:
			c.Back = append(c.Back, k)
		default:
			continue
		}
		if before[d.Name] {
			c.Changed = append(c.Changed, d.Name)
		} else {
			c.Added = append(c.Added, d.Name)
		}
	}
	c.leave(stored, now, names)
	return c
}

// leave decides on the definitions that a listing doesn't hold.
func (c *Changes) leave(stored []Known, now map[identity]bool, names map[string]bool) {
	rejected := make(map[string][]Known)
	for _, k := range stored {
		if now[identity{k.Name, k.Digest}] {
			continue
		}
		if k.Present && !names[k.Name] {
			c.Vanished = append(c.Vanished, k.Name)
		}
		switch {
		case k.Status == Pending:
			c.Dropped = append(c.Dropped, k)
			continue
		case k.Present:
			c.Gone = append(c.Gone, k)
		}
		if k.Status == Rejected {
			rejected[k.Name] = append(rejected[k.Name], k)
		}
	}
	for _, of := range rejected {
		if len(of) <= maxRejected {
			continue
		}
		slices.SortFunc(of, func(a, b Known) int {
			return cmp.Or(b.ReviewedAt.Compare(a.ReviewedAt), bytes.Compare(a.Digest[:], b.Digest[:]))
		})
		for _, k := range of[maxRejected:] {
			c.Dropped = append(c.Dropped, k)
			c.Gone = slices.DeleteFunc(c.Gone, func(g Known) bool { return g.Name == k.Name && g.Digest == k.Digest })
		}
	}
	slices.Sort(c.Vanished)
}
