package provider

import (
	"context"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/panics"
)

// maxBatches is how many parts of one request are with a vendor at a time.
const maxBatches = 4

// EmbedBatches asks for the vectors of inputs in parts of at most size texts, for
// vendors that take no more at once. The vectors are in the order of the inputs,
// the usage is the sum, and unknown when that of a part is. It fails as a whole,
// with the first failure; the other parts' calls are then ended.
func EmbedBatches(ctx context.Context, inputs []string, size int, embed func(ctx context.Context, part []string) (*Vectors, error)) (*Vectors, error) {
	if len(inputs) <= size {
		return embed(ctx, inputs)
	}
	parts := make([]*Vectors, (len(inputs)+size-1)/size)
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(maxBatches)
	for i := range parts {
		part := inputs[i*size : min((i+1)*size, len(inputs))]
		group.Go(panics.Guard(func() (err error) {
			if within.Err() != nil && ctx.Err() == nil {
				return within.Err() // Another part has failed, with the error that counts.
			}
			parts[i], err = embed(within, part)
			return err
		}))
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return join(parts), nil
}

func join(parts []*Vectors) *Vectors {
	whole := &Vectors{Model: parts[0].Model, Usage: new(Usage)}
	for _, part := range parts {
		whole.Vectors = append(whole.Vectors, part.Vectors...)
		switch {
		case part.Usage == nil:
			whole.Usage = nil
		case whole.Usage != nil:
			whole.Usage.Add(*part.Usage)
		}
	}
	return whole
}
