package providertest

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Vendor writes answers in its dialect, for the property test.
type Vendor struct {
	// Generate returns an answer that the dialect can express; see the function Generate.
	Generate func(t *rapid.T) *provider.Answer
	// Whole returns the body of an answer, Stream the text of the same answer as a stream; Pieces splits its texts.
	Whole  func(answer *provider.Answer) string
	Stream func(t *rapid.T, answer *provider.Answer) string
}

// Property checks that a stream means what the whole answer means, however the vendor splits its texts and the network
// its bytes, and that the finish reason agrees with the calls.
func Property(t *testing.T, d Dialect, v Vendor) {
	t.Helper()
	vendor := &scissors{framing: d.Framing}
	p, err := d.New(baseURL, vendor)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := v.Generate(t)
		reported := misreport(t, want)
		vendor.whole, vendor.stream = v.Whole(reported), d.Framing.frames(v.Stream(t, reported))
		vendor.sizes = rapid.SliceOfN(rapid.IntRange(1, 300), 1, 8).Draw(t, "sizes")
		if err := answers(t.Context(), p, question(), want); err != nil {
			t.Fatalf("%v\nwhole: %s\nstream: %s", err, vendor.whole, vendor.stream)
		}
	})
}

// misreport returns the answer as vendors sometimes report it: with the finish reason of calls if it has none, or
// without that reason if it has calls.
func misreport(t *rapid.T, answer *provider.Answer) *provider.Answer {
	reported := *answer
	switch reason := answer.FinishReason; {
	case !rapid.Bool().Draw(t, "misreported"):
	case reason == provider.FinishStop:
		reported.FinishReason = provider.FinishToolCalls
	case reason == provider.FinishToolCalls:
		reported.FinishReason = provider.FinishStop
	}
	return &reported
}

// Generate returns an answer with all fields of provider.Answer: text of any kind, reasoning, up to four parallel
// calls, and disjoint usage.
func Generate(t *rapid.T) *provider.Answer {
	tokens := rapid.Int64Range(0, 1<<30)
	answer := &provider.Answer{
		Model: "model", Text: rapid.String().Draw(t, "text"), Reasoning: rapid.String().Draw(t, "reasoning"),
		FinishReason: rapid.SampledFrom([]provider.FinishReason{
			provider.FinishStop, provider.FinishLength, provider.FinishContentFilter,
		}).Draw(t, "finish"),
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "calls") {
		answer.FinishReason = provider.FinishToolCalls
		arguments := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "arguments")
		text, _ := json.Marshal(arguments) // texts never fail
		answer.ToolCalls = append(answer.ToolCalls, provider.ToolCall{
			Index: i, ID: "call_" + strconv.Itoa(i) + rapid.StringMatching(`[A-Za-z0-9]{6}`).Draw(t, "id"),
			Name: rapid.StringMatching(`[a-z_]{1,20}`).Draw(t, "name"), Arguments: string(text),
		})
	}
	if rapid.Bool().Draw(t, "usage known") {
		answer.Usage = &provider.Usage{
			Input: tokens.Draw(t, "input"), CacheRead: tokens.Draw(t, "read"), CacheWrite: tokens.Draw(t, "written"),
			Output: tokens.Draw(t, "output"), Reasoning: tokens.Draw(t, "thought"),
		}
	}
	return answer
}

// Pieces splits a text between characters into pieces, of which none is empty.
func Pieces(t *rapid.T, text string) []string {
	size := rapid.IntRange(1, 12).Draw(t, "piece")
	var pieces []string
	var piece strings.Builder
	for _, r := range text {
		piece.WriteRune(r)
		if piece.Len() >= size {
			pieces = append(pieces, piece.String())
			piece.Reset()
		}
	}
	if piece.Len() > 0 {
		pieces = append(pieces, piece.String())
	}
	return pieces
}

// scissors is a vendor without a network, whose answers arrive in pieces.
type scissors struct {
	framing       Framing
	whole, stream string
	sizes         []int
}

// RoundTrip answers whole or with a stream, as requested.
func (s *scissors) RoundTrip(r *http.Request) (*http.Response, error) {
	text, header := s.whole, asJSON
	if r.Header.Get("Accept") == s.framing.mediaType() {
		text, header = s.stream, s.framing.header()
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: header.Clone(), Request: r, ContentLength: -1,
		Body: io.NopCloser(&partReader{strings.NewReader(text), s.sizes, 0}),
	}, nil
}

// partReader reads at most one of the sizes at a time, in turn.
type partReader struct {
	text  *strings.Reader
	sizes []int
	reads int
}

func (p *partReader) Read(into []byte) (int, error) {
	size := p.sizes[p.reads%len(p.sizes)]
	p.reads++
	return p.text.Read(into[:min(size, len(into))])
}
