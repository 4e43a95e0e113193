package probe

import (
	"cmp"
	"context"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

// Question is a question that is asked several times.
type Question struct {
	Provider, Model, Prompt string
	Count, MaxTokens        int
	// Temperature is nil for the vendor's default.
	Temperature *float64
}

// Sample is one answer.
type Sample struct {
	Text      string
	Finish    provider.FinishReason
	RequestID string
	Latency   time.Duration
	// Class of the error if the call failed.
	Class apierr.Class
}

// Consistency is the result of a consistency probe.
type Consistency struct {
	Samples         []Sample
	Provider, Model string
	Usage           ledger.Report
	Variance
}

// Variance is how much answers differ. Failed calls don't count.
type Variance struct {
	// Distinct is the number of different answers, not counting surrounding spaces.
	Distinct int
	// Agreement is the share of the most frequent answer, Overlap the mean Jaccard similarity of the words of each two
	// answers; both from 0 to 1.
	Agreement, Overlap float64
}

// Consistency asks the same question several times.
func (p *Prober) Consistency(ctx context.Context, q Question) (*Consistency, error) {
	c := &Consistency{Samples: make([]Sample, q.Count)}
	reports := make([]ledger.Report, q.Count)
	refusals := make([]error, q.Count)
	err := p.alone(ctx, KindConsistency, func(ctx context.Context) error {
		var group errgroup.Group
		group.SetLimit(parallelCalls)
		for i := range q.Count {
			group.Go(panics.Guard(func() error {
				c.Samples[i], reports[i], refusals[i] = p.sample(ctx, q, i+1)
				return nil
			}))
		}
		if err := group.Wait(); err != nil { // Only a panic: refusals are collected.
			return err
		}
		return ended(ctx, refusals)
	})
	if err != nil {
		return nil, err
	}
	var answers []string
	for i := range c.Samples {
		add(&c.Usage, reports[i])
		if refusals[i] == nil {
			answers = append(answers, c.Samples[i].Text)
		}
	}
	c.Variance = vary(answers)
	c.Provider, c.Model = cmp.Or(c.Usage.Provider, q.Provider), cmp.Or(c.Usage.Model, q.Model)
	return c, nil
}

func (p *Prober) sample(ctx context.Context, q Question, number int) (Sample, ledger.Report, error) {
	completion, id, took, err := p.ask(ctx, question{
		provider: q.Provider, model: q.Model, operation: provider.OperationChat, number: number,
		chat: provider.Chat{MaxTokens: q.MaxTokens, Temperature: q.Temperature, Messages: turns("", q.Prompt)},
	})
	s := Sample{RequestID: id, Latency: took}
	if err != nil {
		s.Class = apierr.From(err).ErrorClass()
		return s, ledger.Report{}, err
	}
	s.Text, s.Finish = completion.Text, completion.FinishReason
	return s, completion.Report, nil
}

// vary compares answers.
func vary(answers []string) (v Variance) {
	if len(answers) == 0 {
		return v
	}
	counts, most := make(map[string]int), 0
	sets := make([]map[string]bool, len(answers))
	for i, answer := range answers {
		answer = strings.TrimSpace(answer)
		counts[answer]++
		most = max(most, counts[answer])
		sets[i] = words(answer)
	}
	v.Distinct, v.Agreement, v.Overlap = len(counts), float64(most)/float64(len(answers)), 1
	if len(answers) < 2 {
		return v
	}
	sum, pairs := 0.0, 0
	for i := range sets {
		for j := range i {
			sum += jaccard(sets[i], sets[j])
			pairs++
		}
	}
	v.Overlap = sum / float64(pairs)
	return v
}

// words returns the set of words of a text in lower case.
func words(text string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		set[word] = true
	}
	return set
}

// jaccard returns the Jaccard similarity of two sets; two empty ones are equal.
func jaccard(a, b map[string]bool) float64 {
	both := 0
	for word := range a {
		if b[word] {
			both++
		}
	}
	all := len(a) + len(b) - both
	if all == 0 {
		return 1
	}
	return float64(both) / float64(all)
}
