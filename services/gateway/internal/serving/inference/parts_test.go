package inference

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/cohere"
	"switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/platform/apierr"
)

// partVendor answers each call except one with a vector for each text. That one is answered after the others.
type partVendor struct {
	// usage is the usage that an answer reports, status the status of the call with the text "bad".
	usage  string
	status int
	others chan struct{}
}

func (v *partVendor) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	status, answer := http.StatusOK, v.answer(r, text)
	if bytes.Contains(text, []byte("bad")) {
		for range cap(v.others) {
			<-v.others
		}
		status, answer = v.status, `{"message":"no","error":{"message":"no"}}`
	} else {
		v.others <- struct{}{}
	}
	return &http.Response{StatusCode: status, Request: r, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

func (v *partVendor) answer(r *http.Request, text []byte) string {
	var body struct {
		Texts    []string          `json:"texts"`
		Requests []json.RawMessage `json:"requests"`
	}
	_ = json.Unmarshal(text, &body)
	switch {
	case strings.HasSuffix(r.URL.Path, "/embed"):
		return `{"embeddings":{"float":[[1]` + strings.Repeat(",[1]", len(body.Texts)-1) + `]}` + v.usage + `}`
	case len(body.Requests) > 0:
		return `{"embeddings":[{"values":[1]}` + strings.Repeat(`,{"values":[1]}`, len(body.Requests)-1) + `]` + v.usage + `}`
	}
	return `{}`
}

// The parts of a batch that the vendor answered are billed although the batch failed: each batch has a row, which takes
// the place of its reservation, and the part that moves on to another vendor has its own.
func TestPartsOfAFailedBatchAreBilled(t *testing.T) {
	for name, c := range map[string]struct {
		usage string
		state ledger.State
		input int64
	}{
		"cohere":                {`,"meta":{"billed_units":{"input_tokens":50}}`, ledger.StatePartial, 100},
		"cohere, without usage": {``, ledger.StateEstimated, 2 * 96},
		"cohere, absurd":        {`,"meta":{"billed_units":{"input_tokens":999999999999}}`, ledger.StatePartial, 200*(4+messageInput) - 1},
		"gemini":                {`,"usageMetadata":{"promptTokenCount":60}`, ledger.StatePartial, 60},
		"gemini, without usage": {``, ledger.StateEstimated, 100},
	} {
		for _, status := range []int{http.StatusBadRequest, http.StatusInternalServerError} {
			t.Run(name+" "+strconv.Itoa(status), func(t *testing.T) {
				v := &partVendor{usage: c.usage, status: status, others: make(chan struct{}, 2)}
				size := 200
				var vendor provider.Provider
				var err error
				if strings.HasPrefix(name, "cohere") {
					vendor, err = cohere.New(provider.Settings{Name: "a", BaseURL: "http://vendor.example", Transport: v})
				} else {
					v.others = make(chan struct{}, 1)
					vendor, err = gemini.New(provider.Settings{Name: "a", BaseURL: "http://vendor.example", Transport: v})
				}
				if err != nil {
					t.Fatal(err)
				}
				b := chain(t, "a", [2]string{"a-1", "b-1"}, vendor, &embedder{name: "b", vectors: vectorsFor(size)})
				d := &fakeAdmission{terms: admission.Terms{Reserves: true, Priced: true}}
				b.Admission = d
				input := make([]string, size)
				for i := range input {
					input[i] = "text"
				}
				input[size-1] = "bad"
				_, err = b.Embed(t.Context(), embedRequest(input...))
				want := "interrupted completed"
				if status == http.StatusBadRequest { // The fault is the request's own, at every vendor.
					refused(t, err, http.StatusBadRequest, apierr.ReasonInvalidRequest, "")
					want = "interrupted"
				} else if err != nil {
					t.Fatal(err)
				}
				if got := b.ledger.outcomes(); got != want {
					t.Fatalf("billed as %q, want %q", got, want)
				}
				row := b.ledger.entries[0]
				if row.Provider != "a" || row.State != c.state || row.Usage != (provider.Usage{Input: c.input}) {
					t.Errorf("%s %s: %+v, want %d %s", row.Provider, row.State, row.Usage, c.input, c.state)
				}
				if row.Cost == 0 || row.Cost > d.reserved[row.ID] {
					t.Errorf("billed %d, reserved %d", row.Cost, d.reserved[row.ID])
				}
				if len(d.ended) != 1 || !d.ended[0] || d.inside != 0 {
					t.Errorf("ended with recorded %v, %d inside", d.ended, d.inside)
				}
			})
		}
	}
}

func vectorsFor(n int) provider.Vectors {
	made := provider.Vectors{Usage: &provider.Usage{Input: int64(n)}}
	for range n {
		made.Vectors = append(made.Vectors, []float32{1})
	}
	return made
}

// A batch of which a part was billed is not sent to the same vendor again.
func TestAFailedBatchIsNotRepeated(t *testing.T) {
	a := &embedder{name: "a", err: &provider.PartialError{
		Err: &provider.Error{Class: apierr.ClassServerError, Status: http.StatusServiceUnavailable}, Usage: provider.Usage{Input: 1},
	}}
	b := chain(t, "a", [2]string{"a-1", "b-1"}, a, nil)
	r := embedRequest("one", "two")
	r.Route.Substitution = false
	if _, err := b.Embed(t.Context(), r); err == nil || len(a.asked) != 1 || b.ledger.outcomes() != "interrupted" {
		t.Errorf("%v after %d calls, billed as %q", err, len(a.asked), b.ledger.outcomes())
	}
}

// Images that were made before another one of the request was refused are billed.
func TestImagesOfAFailedRequestAreBilled(t *testing.T) {
	b := chain(t, "a", [2]string{"a-1", "b-1"}, &maker{name: "a", err: &provider.PartialError{
		Err: &provider.Error{Class: apierr.ClassContentPolicy, Status: http.StatusOK}, Usage: provider.Usage{Images: 2},
	}}, nil)
	b.Fleet().Prices = pricetest.Table(t, imagePrices)
	r := drawRequest("")
	r.ImageRequest.Count = 3
	_, err := b.MakeImages(t.Context(), r)
	refused(t, err, http.StatusBadRequest, ReasonContentPolicy, "")
	if got := b.ledger.outcomes(); got != "interrupted" {
		t.Fatalf("billed as %q", got)
	}
	if row := b.ledger.entries[0]; row.State != ledger.StatePartial || row.Usage != (provider.Usage{Images: 2}) || row.Cost == 0 {
		t.Errorf("%s: %+v", row.State, row.Usage)
	}
}
