package provider

import "context"

// EmbedBatches embeds inputs in batches of at most size texts, for vendors that accept no more at once. The vectors are
// in the order of the inputs. The usage is the sum, or unknown if any batch reports none. It fails as a whole, with the
// first failure; the calls of the other batches are then ended. See Parts for what the vendor bills of a failure. Vectors
// that are not all of one length are a failure too.
func EmbedBatches(ctx context.Context, inputs []string, size int, embed func(ctx context.Context, part []string) (*Vectors, error)) (*Vectors, error) {
	made, err := embedParts(ctx, inputs, size, embed)
	if err == nil {
		err = made.Check()
	}
	if err != nil {
		return nil, err
	}
	return made, nil
}

func embedParts(ctx context.Context, inputs []string, size int, embed func(ctx context.Context, part []string) (*Vectors, error)) (*Vectors, error) {
	if len(inputs) <= size {
		return embed(ctx, inputs)
	}
	part := func(i int) []string { return inputs[i*size : min((i+1)*size, len(inputs))] }
	parts, err := Parts(ctx, (len(inputs)+size-1)/size, func(ctx context.Context, i int) (*Vectors, *Usage, error) {
		made, err := embed(ctx, part(i))
		if err != nil {
			return nil, nil, err
		}
		return made, made.Usage, nil
	}, func(i int) Usage {
		bytes := 0
		for _, text := range part(i) {
			bytes += len(text)
		}
		return Estimate(bytes, 0)
	})
	if err != nil {
		return nil, err
	}
	return join(parts), nil
}

func join(parts []*Vectors) *Vectors {
	whole := &Vectors{Model: parts[0].Model, Usage: new(Usage)}
	for _, part := range parts {
		whole.Vectors = append(whole.Vectors, part.Vectors...)
		switch {
		case part.Usage.Reported() == nil:
			whole.Usage = nil
		case whole.Usage != nil:
			whole.Usage.Add(*part.Usage)
		}
	}
	return whole
}
