package inference

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// callMetrics are the instruments of calls to providers, as the conventions name them. Safe for concurrent use.
type callMetrics struct {
	// duration is by family. That of the last family has the name that all had before; it is recorded for all of them as
	// long as that name is deprecated.
	duration [familyOther + 1]metric.Float64Histogram

	firstChunk, perChunk    metric.Float64Histogram
	input, output, embedded metric.Int64Histogram

	// old are the instruments with deprecated names.
	old struct {
		firstChunk, perChunk metric.Float64Histogram
		usage                metric.Int64Histogram
	}

	mu     sync.RWMutex
	series map[label]*series
}

// series is what the calls of one label have in common. Options are made once: making one costs more than recording a
// value.
type series struct {
	label   label
	family  family
	options []metric.RecordOption
	// tokens are counted for calls that generate something; nil for others and for the failures of a label. output is the
	// modality of output that a vendor doesn't tell apart.
	tokens *tokenSums
	output modality
	// oldInput and oldOutput are the options of the deprecated metric of tokens.
	oldInput, oldOutput []metric.RecordOption
}

// tokenCount is a count of tokens that the conventions have a counter for. All but the first two are parts of these.
type tokenCount int

const (
	tokensInput tokenCount = iota
	tokensOutput
	tokensCacheRead
	tokensCacheWrite
	tokensReasoning

	tokenCounts
)

// tokenSums are the tokens of the calls of one label. As in counter, the SDK reads them when metrics are collected.
type tokenSums struct {
	labels [modalities]metric.MeasurementOption
	sums   [tokenCounts][modalities]struct {
		atomic.Int64

		used atomic.Bool
	}
}

func newCallMetrics(meter metric.Meter) (*callMetrics, error) {
	m := callMetrics{series: make(map[label]*series)}
	var errs []error
	observe := func(into *metric.Float64Histogram, name, what string, buckets []float64) {
		var err error
		*into, err = meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(buckets...))
		errs = append(errs, err)
	}
	observe(&m.duration[familyInference], metricInference, "Time of one call to a provider that generates something, to the end of its answer.", durationBuckets)
	observe(&m.duration[familyEmbeddings], metricEmbeddings, "Time of one call to a provider for embeddings.", durationBuckets)
	observe(&m.duration[familyOther], metricOperation, "Time of one call to a provider that classifies or ranks. For other calls it is deprecated: gen_ai.client.inference.duration and gen_ai.client.embeddings.duration replace it.", durationBuckets)
	observe(&m.firstChunk, metricFirstChunk, "Time to the first content of a stream.", durationBuckets)
	observe(&m.perChunk, metricPerOutputChunk, "Time between one chunk of a stream and the next, for each chunk after the first.", durationBuckets)
	observe(&m.old.firstChunk, oldFirstChunk, "Deprecated: gen_ai.client.inference.time_to_first_chunk replaces it.", waitBuckets)
	observe(&m.old.perChunk, oldPerOutputChunk, "Deprecated: gen_ai.client.inference.time_per_output_chunk replaces it. Mean of a stream.", waitBuckets)

	size := func(into *metric.Int64Histogram, name, what string) {
		var err error
		*into, err = meter.Int64Histogram(name, metric.WithUnit("{token}"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(tokenBuckets...))
		errs = append(errs, err)
	}
	size(&m.input, metricCallInput, "Tokens of input of one call that generates something, as billed.")
	size(&m.output, metricCallOutput, "Tokens of output of one call that generates something, as billed.")
	size(&m.embedded, metricEmbeddedInput, "Tokens of input of one call for embeddings, as billed.")
	size(&m.old.usage, oldUsage, "Deprecated: gen_ai.client.inference.operation.input_tokens and output_tokens replace it, and for sums gen_ai.client.inference.usage.input_tokens and output_tokens.")

	sum := func(of tokenCount, name, what string) {
		_, err := meter.Int64ObservableCounter(name, metric.WithUnit("{token}"), metric.WithDescription(what),
			metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
				m.each(of, func(n int64, labels metric.MeasurementOption) { o.Observe(n, labels) })
				return nil
			}))
		errs = append(errs, err)
	}
	sum(tokensInput, metricUsageInput, "Tokens of input, as billed, by modality; with cached ones.")
	sum(tokensOutput, metricUsageOutput, "Tokens of output, as billed, by modality; with reasoning.")
	sum(tokensCacheRead, metricUsageCacheRead, "Tokens of input that came from a vendor's prompt cache, by modality.")
	sum(tokensCacheWrite, metricUsageCacheWrite, "Tokens of input that were written to a vendor's prompt cache, by modality.")
	sum(tokensReasoning, metricUsageReasoning, "Tokens of output that are reasoning, by modality.")
	return &m, errors.Join(errs...)
}

// of returns the series of a label.
func (m *callMetrics) of(l label) *series {
	m.mu.RLock()
	s := m.series[l]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s = m.series[l]; s == nil {
		s = newSeries(l)
		m.series[l] = s
	}
	return s
}

// failed returns the series of calls that are labelled as those of s and failed.
func (m *callMetrics) failed(s *series, kind string) *series {
	l := s.label
	l.key, l.value = attrErrorType, kind
	return m.of(l)
}

func newSeries(l label) *series {
	with := func(further ...attribute.KeyValue) []metric.RecordOption {
		return []metric.RecordOption{l.option(further...)}
	}
	s := &series{label: l, family: familyOf(l.operation), output: outputOf(l.operation), options: with()}
	if l.key != "" {
		return s
	}
	s.oldInput, s.oldOutput = with(oldTokenType.String("input")), with(oldTokenType.String("output"))
	if s.family == familyInference {
		s.tokens = new(tokenSums)
		for i, name := range modalityNames {
			s.tokens.labels[i] = l.option(attrModality.String(name))
		}
	}
	return s
}

// ended records a call that has ended.
func (m *callMetrics) ended(ctx context.Context, s *series, took time.Duration) {
	m.duration[s.family].Record(ctx, took.Seconds(), s.options...)
	if s.family != familyOther {
		m.duration[familyOther].Record(ctx, took.Seconds(), s.options...)
	}
}

// first records the time to the first content of a stream.
func (m *callMetrics) first(ctx context.Context, s *series, after time.Duration) {
	m.firstChunk.Record(ctx, after.Seconds(), s.options...)
	m.old.firstChunk.Record(ctx, after.Seconds(), s.options...)
}

// chunk records the time from one chunk of a stream to the next.
func (m *callMetrics) chunk(ctx context.Context, s *series, after time.Duration) {
	m.perChunk.Record(ctx, after.Seconds(), s.options...)
}

// streamed records the mean time between the pieces of a stream; those after the first arrived within rest.
func (m *callMetrics) streamed(ctx context.Context, s *series, pieces int, rest time.Duration) {
	if pieces > 1 {
		m.old.perChunk.Record(ctx, rest.Seconds()/float64(pieces-1), s.options...)
	}
}

// used records the tokens of a call whose input is of a modality. ended is s, or the series of the call's failure: sizes
// of answers that were cut short are told apart from those of whole ones.
func (m *callMetrics) used(ctx context.Context, s, ended *series, u *provider.Usage, of modality) {
	input, output := u.Prompt(), u.Completion()
	m.old.usage.Record(ctx, input, s.oldInput...)
	m.old.usage.Record(ctx, output, s.oldOutput...)
	switch {
	case input == 0 && output == 0: // It is priced by pieces.
	case s.family == familyEmbeddings:
		m.embedded.Record(ctx, input, ended.options...)
	case s.family == familyInference:
		m.input.Record(ctx, input, ended.options...)
		m.output.Record(ctx, output, ended.options...)
		s.tokens.add(u, of, s.output)
	}
}

// outputOf returns the modality of the output of an operation that a vendor doesn't tell apart.
func outputOf(operation string) modality {
	switch operation {
	case operationNames[provider.OperationImages], operationNames[provider.OperationSpeech]:
		return modalityUnknown
	}
	return modalityText
}

// add counts the tokens of a call, each in one modality. Cached tokens have no modality of their own, so that theirs is
// that of the whole input.
func (t *tokenSums) add(u *provider.Usage, input, output modality) {
	cached, written := input, u.CacheWrite+u.CacheWriteLong
	if u.ImageInput > 0 || u.AudioInput > 0 {
		input = modalityText // The vendor counts the others apart.
	}
	t.count(tokensInput, input, u.Input)
	t.countSome(tokensInput, cached, u.CacheRead+written)
	t.countSome(tokensInput, modalityImage, u.ImageInput)
	t.countSome(tokensInput, modalityAudio, u.AudioInput)
	t.count(tokensCacheRead, cached, u.CacheRead)
	t.count(tokensCacheWrite, cached, written)

	t.count(tokensOutput, output, u.Output+u.Reasoning)
	t.countSome(tokensOutput, modalityImage, u.ImageOutput)
	t.countSome(tokensOutput, modalityAudio, u.AudioOutput)
	t.count(tokensReasoning, output, u.Reasoning)
}

func (t *tokenSums) countSome(of tokenCount, as modality, n int64) {
	if n > 0 {
		t.count(of, as, n)
	}
}

func (t *tokenSums) count(of tokenCount, as modality, n int64) {
	s := &t.sums[of][as]
	s.Add(n)
	if !s.used.Load() {
		s.used.Store(true)
	}
}

// each visits the sums of a count that were ever counted.
func (m *callMetrics) each(of tokenCount, visit func(n int64, labels metric.MeasurementOption)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, s := range m.series {
		if s.tokens == nil {
			continue
		}
		for as := range modalities {
			if sum := &s.tokens.sums[of][as]; sum.used.Load() {
				visit(sum.Load(), s.tokens.labels[as])
			}
		}
	}
}
