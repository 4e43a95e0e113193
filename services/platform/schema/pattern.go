package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// errPattern refuses a regular expression. The library's own texts may repeat all of it.
var errPattern = errors.New("must be a regular expression of RE2, without lookaround and backreferences")

// pattern is a regular expression with the size of its program, by which the time of a match grows.
type pattern struct {
	*regexp.Regexp

	size int
}

// patterns are the regular expressions of a schema.
type patterns struct {
	compiled map[string]pattern
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
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, errPattern
	}
	p.compiled[text] = pattern{compiled, size}
	return p.compiled[text], nil
}

// matches reports whether a regular expression matches a text, and takes the steps of it.
func (e *evaluation) matches(r jsonschema.Regexp, text string) bool {
	p, ok := r.(pattern)
	return ok && e.take(1+p.size*(len(text)+1)/stepBytes) && p.MatchString(text)
}
