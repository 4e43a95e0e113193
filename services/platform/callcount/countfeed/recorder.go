package countfeed

import (
	"context"
	"time"

	"switchyard.dev/services/platform/batch"
	"switchyard.dev/services/platform/callcount"
)

const (
	// waiting is how many counts may wait for a commit; together is how many share one.
	waiting  = 1024
	together = 512
	// recordTime bounds a commit.
	recordTime = 2 * time.Second
)

// Recorder implements callcount.Recorder for a service without a spool: counts that come at the same time share a commit.
type Recorder struct {
	group *batch.Group[callcount.Count, struct{}]
}

// NewRecorder returns a Recorder; the caller has to start Run.
func NewRecorder(f *Feed) *Recorder {
	return &Recorder{batch.NewGroup(batch.Options{Size: waiting, Most: together}, func(ctx context.Context, counts []callcount.Count) ([]struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, recordTime)
		defer cancel()
		return make([]struct{}, len(counts)), f.Record(ctx, counts)
	})}
}

// Record implements callcount.Recorder.
func (r *Recorder) Record(ctx context.Context, count callcount.Count) (settled func() error, err error) {
	pending, err := r.group.Submit(ctx, count)
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := pending.Wait(context.WithoutCancel(ctx))
		return err
	}, nil
}

// Run commits counts until ctx ends. It is a part of the service's lifecycle.
func (r *Recorder) Run(ctx context.Context) error { return r.group.Run(ctx, 1) }
