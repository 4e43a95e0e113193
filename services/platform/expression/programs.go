package expression

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
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

// An organization may compile for compileBurst at once, about a second, so that 1,000 expressions of ordinary length are
// compiled after a start. It gets back compileRate for each second: a tenth of a processor, for as long as it uses more
// expressions in turn than its share holds.
const compileBurst, compileRate = 500 * MaxCost, 50 * MaxCost

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
	// left is what compiling might still cost at the time refilled.
	left     float64
	refilled time.Time
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
func (p *programs) own(organization string, now time.Time) *ownPrograms {
	own, ok := p.organizations.Get(organization)
	if !ok {
		own = &ownPrograms{left: compileBurst, refilled: now}
		own.kept, _ = simplelru.NewLRU[string, *Program](maxPrograms, nil)
		p.organizations.Add(organization, own)
	}
	return own
}

// spend takes the cost of compiling an expression from what the organization may spend, and reports whether there was
// enough left.
func (p *programs) spend(organization, text string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.own(organization, now)
	own.left = min(compileBurst, own.left+max(0, now.Sub(own.refilled).Seconds())*compileRate)
	own.refilled = now
	cost := float64(programCost + programEach*len(text))
	if own.left < cost {
		return false
	}
	own.left -= cost
	return true
}

// add keeps a program, unless it is kept already.
func (p *programs) add(organization, text string, program *Program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.own(organization, time.Now())
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
