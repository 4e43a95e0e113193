package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
)

// openTraces makes the pipeline's recorder, which records behind the answers, and
// the archive that shows what it recorded. What is kept of whom, the policy says.
func (b *builder) openTraces(ctx context.Context) error {
	keys, err := traceKeys(b.cfg.TraceKeysFile)
	if err != nil {
		return err
	}
	if keys == nil {
		b.telemetry.Log.InfoContext(ctx, "no content of requests is captured; that needs the file of "+prefix+"_TRACE_KEYS_FILE at the start",
			slog.String("file", string(b.cfg.TraceKeysFile)))
	}
	store, log := postgres.NewTraces(b.pool), b.telemetry.Log
	b.recorder, err = trace.NewRecorder(trace.Options{
		Store: store, Keys: keys, Rule: b.fleets.tracing, Answer: api.AnswerJSON, Log: log, Meter: b.telemetry.MeterProvider.Meter(service),
	})
	if err != nil {
		return err
	}
	b.archive = trace.NewArchive(store, keys, func() *redact.Redactor { return b.fleets.policy().Redactor() }, log)
	b.runner.Go("traces", b.recorder.Run)
	b.runner.Go("upkeep of traces", trace.NewUpkeep(store, log).Run)
	b.runner.OnClose("traces", b.recorder.Close)
	return nil
}

// traceKeys returns nil where no file is named, and where the file doesn't exist: a
// volume may name it before the secret is created.
func traceKeys(file secret.File) (*trace.Keys, error) {
	var keys *trace.Keys
	if _, err := os.Stat(string(file)); !errors.Is(err, fs.ErrNotExist) {
		if keys, err = trace.NewKeys(file); err != nil {
			return nil, fmt.Errorf("%s_TRACE_KEYS_FILE: %w", prefix, err)
		}
	}
	return keys, nil
}

// tracing is what is kept of an organization's requests.
func (f *fleets) tracing(organization string) trace.Rule {
	t := f.policy().Tracing(organization)
	return trace.Rule{
		Lineage: t.Lineage, Retention: t.Retention,
		SamplePercent: t.SamplePercent, MaxBytes: t.MaxBytes, ContentRetention: t.ContentRetention,
	}
}

// erasure erases what is kept of an organization's words, wherever that is.
type erasure struct {
	answers *cache.Cache
	archive *trace.Archive
}

// Purge implements api.Purger. It counts cached answers; captured contents go too.
func (e erasure) Purge(ctx context.Context, organization string) (cache.Purged, error) {
	purged, err := e.answers.Purge(ctx, organization)
	if err != nil {
		return purged, err
	}
	if _, err := e.archive.Erase(ctx, organization); err != nil {
		e := apierr.New(apierr.KindUnavailable, cache.ReasonPurgeIncomplete, "captured requests are not all erased yet; send the purge again")
		return cache.Purged{}, e.Wrap(err)
	}
	return purged, nil
}
