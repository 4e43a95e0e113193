package schema

import (
	"errors"
	"fmt"
	"math/bits"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// errPattern refuses a regular expression. The library's own texts may repeat all of it.
var errPattern = errors.New("must be a regular expression of RE2, without lookaround and backreferences")

// pattern is a regular expression, compiled to the program that an evaluation runs. Package regexp can't be stopped in
// the middle of a text, and its time grows with the product of the sizes of text and program, which can be a thousand
// times as much as most expressions take.
type pattern struct {
	text    string
	program []instruction
	start   uint32
	// anchored reports whether a match must begin at the beginning of the text. prefix is text with which every match
	// begins, at most maxPrefix bytes; empty for none.
	anchored bool
	prefix   string
	// cost is the cost of visiting an instruction; it is higher if the program is too large for the nearest caches.
	cost int
}

// maxPrefix is how long a prefix is searched for. Package strings finds a longer one in a time that depends on the text.
const maxPrefix = 16

// instruction is an instruction of a program. ascii has a bit for each ASCII character that it consumes.
type instruction struct {
	*syntax.Inst

	ascii [2]uint64
	// beyond is how many further visits another character costs, since it is looked up in the instruction's ranges.
	beyond int
}

// consumes reports whether the instruction consumes a character.
func (i *instruction) consumes(r rune) bool {
	if r >= 0 && r < utf8.RuneSelf {
		return i.ascii[r>>6]&(1<<(r&63)) != 0
	}
	return r >= 0 && i.MatchRune(r)
}

// patterns are the regular expressions of a schema.
type patterns struct {
	compiled map[string]*pattern
	// size is that of all their programs.
	size int
}

// compile returns a regular expression. The library asks for each once to check it, and again to use it.
func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if known, ok := p.compiled[text]; ok {
		return known, nil
	}
	if len(text) > maxPattern {
		return nil, fmt.Errorf("must not be longer than %d bytes", maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, errPattern
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, errPattern
	}
	size := len(program.Inst)
	if p.size += size; size > maxProgram || p.size > maxPrograms {
		return nil, fmt.Errorf("is too large when its repetitions are written out: %d instructions, of %d for one and %d for all expressions",
			size, maxProgram, maxPrograms)
	}
	p.compiled[text] = newPattern(text, program)
	return p.compiled[text], nil
}

func newPattern(text string, program *syntax.Prog) *pattern {
	p := &pattern{
		text: text, program: make([]instruction, len(program.Inst)), start: uint32(program.Start),
		anchored: program.StartCond()&syntax.EmptyBeginText != 0,
	}
	prefix, _ := program.Prefix()
	p.prefix = prefix[:min(len(prefix), maxPrefix)]
	p.cost = costInstruction + min(len(program.Inst)/perInstruction, costInstruction)
	for i := range program.Inst {
		one := instruction{Inst: &program.Inst[i]}
		if len(one.Rune) > 0 { // Other instructions match no character.
			for r := range rune(utf8.RuneSelf) {
				if one.MatchRune(r) {
					one.ascii[r>>6] |= 1 << (r & 63)
				}
			}
			one.beyond = visitsBeyond(one.Inst)
		}
		p.program[i] = one
	}
	return p
}

// visitsBeyond returns how many visits the search for a character beyond ASCII costs: the search of ranges takes a step
// for each power of two, and package unicode searches its tables for each letter that is equal without case.
func visitsBeyond(i *syntax.Inst) int {
	if len(i.Rune) == 1 && syntax.Flags(i.Arg)&syntax.FoldCase != 0 {
		return costFold / costInstruction
	}
	return bits.Len(uint(len(i.Rune) / 4))
}

// String implements jsonschema.Regexp.
func (p *pattern) String() string { return p.text }

// MatchString implements jsonschema.Regexp.
func (p *pattern) MatchString(text string) bool {
	m := matcher{budget: costOf(len(text) * len(p.program))}
	return m.match(p, text)
}

// matcher simulates a program's nondeterministic automaton. An evaluation uses one matcher for all patterns.
type matcher struct {
	// budget is what may still be spent on matching, in nanoseconds. Once it is negative, nothing matches.
	budget    int
	now, next threads
	stack     []uint32
	matched   bool
}

// threads is the set of instructions that consume the next character, in list. seen has the present turn for each
// instruction that has been visited.
type threads struct {
	list, seen []uint32
	turn       uint32
}

func (t *threads) clear(size int) {
	if t.turn++; len(t.seen) < size || t.turn == 0 {
		t.seen, t.turn = make([]uint32, max(size, len(t.seen))), 1
	}
	t.list = t.list[:0]
}

// matches reports whether a regular expression matches a text, and spends the cost. If the matcher's budget runs out, the
// check ends and matches returns false.
func (e *evaluation) matches(r jsonschema.Regexp, text string) bool {
	p, ok := r.(*pattern)
	if !ok {
		return false
	}
	m := &e.matcher
	m.budget = min(m.budget, e.cost)
	before := m.budget
	matched := m.match(p, text)
	e.cost -= before - m.budget
	if m.budget < 0 {
		e.cost = m.budget
	}
	return matched
}

// take spends a cost and reports whether matching may go on.
func (m *matcher) take(cost int) bool {
	m.budget -= cost
	return m.budget >= 0
}

// match reports whether p matches a text. It returns false if the budget runs out.
func (m *matcher) match(p *pattern, text string) bool {
	if !m.take(costMatch) {
		return false
	}
	m.matched = false
	m.now.clear(len(p.program))
	previous := rune(-1)
	for at := 0; m.take(costByte); {
		if m.matched {
			return true
		}
		if len(m.now.list) == 0 && p.prefix != "" {
			skipped := strings.Index(text[at:], p.prefix)
			if skipped < 0 || !m.take(skipped/bytesRead) {
				m.take(len(text[at:]) / bytesRead)
				return false
			}
			if at += skipped; skipped > 0 {
				previous, _ = utf8.DecodeLastRuneInString(text[:at])
			}
		}
		r, width := rune(-1), 0
		if at < len(text) {
			r, width = utf8.DecodeRuneInString(text[at:])
		}
		flags := syntax.EmptyOpContext(previous, r)
		if at == 0 || !p.anchored {
			m.budget -= m.add(p, &m.now, p.start, flags) * p.cost
		}
		if m.matched || width == 0 || p.anchored && len(m.now.list) == 0 {
			return m.matched
		}
		m.step(p, r, syntax.EmptyOpContext(r, following(text[at+width:])))
		previous, at = r, at+width
	}
	return false
}

// following returns the first character of a text, or -1 if the text is empty.
func following(text string) rune {
	if text == "" {
		return -1
	}
	r, _ := utf8.DecodeRuneInString(text)
	return r
}

// step moves all threads past a character.
func (m *matcher) step(p *pattern, r rune, after syntax.EmptyOp) {
	m.next.clear(len(p.program))
	visited := len(m.now.list)
	for _, at := range m.now.list {
		i := &p.program[at]
		if r >= utf8.RuneSelf {
			visited += i.beyond
		}
		if i.consumes(r) {
			visited += m.add(p, &m.next, i.Out, after)
		}
	}
	m.budget -= visited * p.cost
	m.now, m.next = m.next, m.now
}

// add adds to a set the consuming instructions that can be reached from an instruction without consuming a character.
// It returns how many instructions it visited.
func (m *matcher) add(p *pattern, to *threads, from uint32, flags syntax.EmptyOp) (visited int) {
	m.stack = append(m.stack[:0], from)
	for len(m.stack) > 0 {
		at := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		visited++
		if to.seen[at] == to.turn {
			continue
		}
		to.seen[at] = to.turn
		switch i := &p.program[at]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			m.stack = append(m.stack, i.Arg, i.Out)
		case syntax.InstCapture, syntax.InstNop:
			m.stack = append(m.stack, i.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(i.Arg)&^flags == 0 {
				m.stack = append(m.stack, i.Out)
			}
		case syntax.InstMatch:
			m.matched = true
		case syntax.InstFail:
		default:
			to.list = append(to.list, at)
		}
	}
	return visited
}
