package inference

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Embedded is the answer to an embedding request.
type Embedded struct {
	// Vectors are in the order of the inputs.
	Vectors [][]float32
	Report  ledger.Report
	Route   Route
}

// Embed returns the vectors of texts, or of tokens. Vectors of two models can't be compared: when another model than
// the one asked for made them, the report has Substituted set, also where the provider is the same.
func (e *Engine) Embed(ctx context.Context, r *Request) (*Embedded, error) {
	ctx, x, err := e.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	defer x.end(ctx)
	x.anchor()
	var vectors *provider.Vectors
	var unfit candidate // its vectors are not what was asked for
	err = x.tryWhole(ctx, func(ctx context.Context, a *attempt) (err error) {
		made, err := x.embed(ctx, &a.candidate)
		if made != nil {
			vectors, unfit = made, a.candidate
		}
		return err
	})
	if err != nil {
		if vectors != nil && x.billed == nil { // The vendor has made vectors, and bills them.
			x.bill(ctx, &unfit, ledger.OutcomeAborted, tally{usage: vectors.Usage, whole: true})
		}
		return nil, err
	}
	embedded := &Embedded{Vectors: vectors.Vectors, Report: x.settle(ctx, ledger.OutcomeCompleted, tally{usage: vectors.Usage})}
	embedded.Route = x.route()
	x.record.answered(trace.Answer{Vectors: vectors.Vectors})
	return embedded, nil
}

// anchor takes the plan's first candidate as the requested one where the caller named none: the report of a later call
// must show that its vectors are of another model.
func (s *selection) anchor() {
	if s.plan.Requested == "" && len(s.plan.Candidates) > 0 {
		s.plan.Requested = s.plan.Candidates[0].Provider
	}
}

// anotherSpace reports whether vectors are, or may be, of another model than the one asked for.
func (s *selection) anotherSpace(operation provider.Operation, served *candidate) bool {
	return operation == provider.OperationEmbeddings && (served.Substitute || !served.IsSameModel(&s.plan.Candidates[0]))
}

func (x *execution) embed(ctx context.Context, c *candidate) (*provider.Vectors, error) {
	embedder, ok := c.provider.(provider.Embedder)
	if !ok {
		return nil, incapable("embeddings")
	}
	request := x.request.Embedding
	request.Model = c.Upstream
	vectors, err := embedder.Embed(ctx, c.credential, &request)
	if err != nil {
		return nil, err
	}
	err = checkVectors(vectors.Vectors, &request)
	if e, ok := errors.AsType[*provider.Error](err); ok && !e.Unsupported {
		return nil, err
	}
	return vectors, err
}

// checkVectors returns an error unless there is one vector per input, all of one length, of finite numbers: wrong
// vectors would be stored and spoil an index much later.
func checkVectors(vectors [][]float32, asked *provider.Embedding) error {
	if len(vectors) != asked.Len() {
		return malformed(fmt.Sprintf("%d vectors for %d inputs", len(vectors), asked.Len()))
	}
	length := len(vectors[0])
	if want := cmp.Or(asked.Dimensions, length); want != length {
		return provider.Unsupported("dimensions", fmt.Sprintf("the model makes vectors of length %d only", length))
	}
	for _, vector := range vectors {
		if len(vector) == 0 || len(vector) != length {
			return malformed("vectors of different lengths")
		}
		for _, x := range vector {
			if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
				return malformed("a vector that holds no number")
			}
		}
	}
	return nil
}

// malformed returns the error of an answer that can't be passed on. Another provider may do better.
func malformed(what string) *provider.Error {
	return &provider.Error{Class: apierr.ClassServerError, Text: "the provider's answer holds " + what}
}

// incapable returns the error of a provider without an operation. Plans contain no such provider; a policy that claims
// otherwise gets the answer of a vendor that can't serve.
func incapable(operation string) *provider.Error {
	return provider.Unsupported("provider", "has no "+operation)
}
