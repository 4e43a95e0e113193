package schema

import (
	"encoding/json"
	"iter"
	"math/bits"
	"slices"
)

// A check may cost maxCost, or costEach per byte of the payload if that is more (above 50 kB). costEach is about what it
// takes to read a byte. All regular expressions of a check together may cost maxCost. Costs are in nanoseconds of
// processor time.
const maxCost, costEach = 2_000_000, 40

// The costs of the parts of a check, measured on a slow server's processor. Whatever grows with the payload or the
// schema is charged before it is done: loops, sorts, copies, hashes and arithmetic.
const (
	costValue       = 150  // applying a subschema to a value
	costProperty    = 60   // visiting a property or an element, or looking up a name
	costListed      = 10   // listing a name of an object
	costCompared    = 6    // comparing two names
	costCanonical   = 300  // writing a value in its canonical form
	costDigit       = 4    // parsing one character of a number
	costNumber      = 1000 // comparing a number
	costMerged      = 400  // noting a property or an item as evaluated
	costMatch       = 100  // starting to match a regular expression
	costByte        = 5    // matching one character of the text
	costInstruction = 6    // visiting an instruction for a character; up to twice as much in a large program
	costFold        = 120  // finding the letters that are equal without case
	// bytesRead is how many bytes a check reads in a nanosecond, bytesHashed how many it hashes or compares.
	bytesRead, bytesHashed = 1, 4
	// bitsSquared is how many bits times bits of large numbers are calculated with in a nanosecond.
	bitsSquared = 200
	// perInstruction is how many instructions in a program make each visit cost a nanosecond more.
	perInstruction = 50
)

// costOf returns what the check of a payload of a size in bytes may cost.
func costOf(size int) int { return max(maxCost, size*costEach) }

// take spends a cost and reports whether the check may go on.
func (e *evaluation) take(cost int) bool {
	if e.cost >= 0 {
		e.cost -= cost
	}
	return e.cost >= 0
}

// takeName spends the cost of looking up a name, and reports whether the check may go on.
func (e *evaluation) takeName(name string) bool { return e.take(costProperty + len(name)/bytesHashed) }

// takeArithmetic spends a cost, and the further cost of multiplying, dividing and reducing numbers of so many bits. It
// reports whether the check may go on.
func (e *evaluation) takeArithmetic(cost, size int) bool { return e.take(cost + size*size/bitsSquared) }

// ended reports whether there is nothing left to find out.
func (e *evaluation) ended() bool { return e.cost < 0 || len(e.violations) == MaxViolations }

// parse spends the cost of parsing a number, and parses it. It reports false for what parseNumber does, and where the
// check may not go on.
func (e *evaluation) parse(text json.Number) (number, bool) {
	if !e.take(len(text) * costDigit) {
		return number{}, false
	}
	return parseNumber(text.String())
}

// members returns the members of an object, in the order of their names unless quiet: the first violations are always
// the same. It spends the cost of looking up each, and stops when the check has ended.
func (e *evaluation) members(object map[string]any, quiet bool) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		if quiet || len(object) < 2 {
			for name, value := range object {
				if e.ended() || !e.takeName(name) || !yield(name, value) {
					return
				}
			}
			return
		}
		for _, name := range e.names(object) {
			if e.ended() || !e.takeName(name) || !yield(name, object[name]) {
				return
			}
		}
	}
}

// names returns the names of an object in order; none if the check may not spend the cost of sorting them.
func (e *evaluation) names(object map[string]any) []string {
	if !e.take(len(object) * costListed) {
		return nil
	}
	names, size := make([]string, 0, len(object)), 0
	for name := range object {
		names, size = append(names, name), size+len(name)
	}
	if !e.take(bits.Len(uint(len(names))) * (len(names)*costCompared + size/bytesHashed)) {
		return nil
	}
	slices.Sort(names)
	return names
}
