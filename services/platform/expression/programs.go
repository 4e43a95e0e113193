package expression

import (
	"runtime"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// The bounds of the programs that an Engine keeps. A program counts with the size of its expression in bytes, and with
// programSize in addition; it takes up to a hundred times as much memory.
const (
	programSize = 256
	// keptSize bounds the programs of all organizations, keptShare the programs of one. A share holds 1,000 expressions of
	// ordinary length.
	keptSize, keptShare = 2 << 20, keptSize / 4
	maxPrograms         = keptSize / programSize
)

// The cost of compiling, in the units of MaxCost: programCost for each expression, and programEach for each of its bytes.
const programCost, programEach = 4000, 80

// processorSecond is the cost of about one second of a processor's time.
const processorSecond = 500 * MaxCost

// An organization may compile for one second at once, so that 1,000 expressions of ordinary length are compiled after a
// start, and for a tenth of each second after that if it uses more expressions in turn than its share holds.
const compileBurst, compileRate = processorSecond, processorSecond / 10

// evaluatePerSecond returns the cost of evaluations that an organization may spend each second: half of the processors.
func evaluatePerSecond() int { return processorSecond * runtime.GOMAXPROCS(0) / 2 }

// programs holds the programs that were used last, by organization. An organization that keeps more than its share
// loses its own programs; if all keep too much, the organization that was idle for longest loses its programs first.
type programs struct {
	mu            sync.Mutex
	organizations *simplelru.LRU[string, *ownPrograms]
	size          int
}

// ownPrograms are the programs of one organization, by their expressions.
type ownPrograms struct {
	kept *simplelru.LRU[string, *Program]
	size int
	// compiling and evaluating limit what the organization spends.
	compiling, evaluating *rate.Limiter
}

func newPrograms() *programs {
	p := &programs{}
	// It fails for a size below 1 only.
	p.organizations, _ = simplelru.NewLRU(maxPrograms, func(_ string, own *ownPrograms) { p.size -= own.size })
	return p
}

// find returns a kept program; nil for none.
func (p *programs) find(organization, text string) *Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, ok := p.organizations.Get(organization)
	if !ok {
		return nil
	}
	found, _ := own.kept.Get(text)
	return found
}

// own returns the programs of an organization. The caller holds mu.
func (p *programs) own(organization string) *ownPrograms {
	own, ok := p.organizations.Get(organization)
	if !ok {
		evaluateBurst := evaluatePerSecond()
		evaluateRate := rate.Limit(evaluateBurst)
		own = &ownPrograms{compiling: rate.NewLimiter(compileRate, compileBurst), evaluating: rate.NewLimiter(evaluateRate, evaluateBurst)}
		own.kept, _ = simplelru.NewLRU[string, *Program](maxPrograms, nil)
		p.organizations.Add(organization, own)
	}
	return own
}

// limits returns the limiters of an organization's work.
func (p *programs) limits(organization string) (compiling, evaluating *rate.Limiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.own(organization)
	return own.compiling, own.evaluating
}

// permitCompile reports whether an organization may compile an expression, and takes the cost.
func (p *programs) permitCompile(organization, text string, now time.Time) bool {
	compiling, _ := p.limits(organization)
	return compiling.AllowN(now, programCost+programEach*len(text))
}

// permitEvaluation reports whether an organization may evaluate an expression.
func (p *programs) permitEvaluation(organization string, now time.Time) bool {
	_, evaluating := p.limits(organization)
	return evaluating.TokensAt(now) >= MaxCost
}

// recordEvaluation takes the cost of an evaluation from what the organization may spend. Concurrent evaluations can
// spend more than is left; the next ones wait until that is made up for.
func (p *programs) recordEvaluation(organization string, cost uint64, now time.Time) {
	_, evaluating := p.limits(organization)
	evaluating.ReserveN(now, int(min(cost, uint64(evaluating.Burst()))))
}

// add keeps a program, unless it is kept already.
func (p *programs) add(organization, text string, program *Program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.own(organization)
	if own.kept.Contains(text) {
		return
	}
	own.kept.Add(text, program)
	p.grow(own, programSize+len(text))
	for own.size > keptShare {
		p.dropOldest(own)
	}
	for p.size > keptSize {
		idle, oldest, _ := p.organizations.GetOldest()
		if p.dropOldest(oldest); oldest.kept.Len() == 0 {
			p.organizations.Remove(idle)
		}
	}
}

func (p *programs) grow(own *ownPrograms, size int) {
	own.size += size
	p.size += size
}

func (p *programs) dropOldest(own *ownPrograms) {
	text, _, _ := own.kept.RemoveOldest()
	p.grow(own, -programSize-len(text))
}
