package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"switchyard.dev/services/gateway/internal/api"
	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/gateway/internal/serving/conversation"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/service"
)

// traces are the recorder of requests, the archive of what it recorded, and the manager of responses that callers may
// refer to; without keys there is none of these.
type traces struct {
	recorder  *trace.Recorder
	archive   *trace.Archive
	responses *conversation.Manager
	keys      *trace.Keys
}

// openTraces builds the recorder, which records traces after the responses, and the archive, which reads them. The
// policy says what is recorded of which organization.
func openTraces(ctx context.Context, s *service.Service, cfg Config, stores stores, fleets *fleets) (traces, error) {
	keys, err := traceKeys(cfg.TraceKeysFile)
	if err != nil {
		return traces{}, err
	}
	if keys == nil {
		s.Log.InfoContext(ctx, "no request content is captured: "+prefix+"_TRACE_KEYS_FILE names no file that exists at the start",
			slog.String("file", string(cfg.TraceKeysFile)))
	}
	store, log := postgres.NewTraces(stores.pool), s.Log
	recorder, err := trace.NewRecorder(trace.Options{
		Store: store, Keys: keys, Rule: fleets.tracing, Answer: api.AnswerJSON, Log: log, Meter: s.Meter,
	})
	if err != nil {
		return traces{}, err
	}
	archive := trace.NewArchive(store, keys, func() *redact.Redactor { return fleets.policy().Redactor() }, log)
	s.Runner.Go("traces", recorder.Run)
	s.Runner.Go("upkeep of traces", trace.NewUpkeep(store, "traces", log).Run)
	s.Runner.OnClose("traces", recorder.Close)
	return traces{recorder, archive, openConversations(s, stores, keys, fleets), keys}, nil
}

// openConversations returns the manager of responses, or nil without keys to seal them with.
func openConversations(s *service.Service, stores stores, keys *trace.Keys, fleets *fleets) *conversation.Manager {
	store := postgres.NewResponses(stores.pool)
	s.Runner.Go("upkeep of responses", trace.NewUpkeep(store, "responses", s.Log).Run)
	if keys == nil {
		return nil
	}
	return conversation.NewManager(store, keys, func(organization string) time.Duration {
		return fleets.policy().Tracing(organization).ContentRetention
	})
}

// conversations returns the manager as the API takes it: nil for none.
func (t traces) conversations() api.Conversations {
	if t.responses == nil {
		return nil
	}
	return t.responses
}

// traceKeys returns nil if no file is named or the file doesn't exist: a volume may name it before the secret is
// created. No content is captured then, until the service starts with the file.
func traceKeys(file secret.File) (*trace.Keys, error) {
	var keys *trace.Keys
	if _, err := os.Stat(string(file)); !errors.Is(err, fs.ErrNotExist) {
		if keys, err = trace.NewKeys(file); err != nil {
			return nil, fmt.Errorf("%s_TRACE_KEYS_FILE: %w", prefix, err)
		}
	}
	return keys, nil
}

// tracing returns what is recorded of an organization's requests.
func (f *fleets) tracing(organization string) trace.Rule {
	t := f.policy().Tracing(organization)
	return trace.Rule{
		Lineage: t.Lineage, Retention: t.Retention,
		SamplePercent: t.SamplePercent, MaxBytes: t.MaxBytes, ContentRetention: t.ContentRetention,
	}
}

// erasure erases an organization's content from the cache, the traces, the stored responses, files and batches.
type erasure struct {
	answers *cache.Cache
	traces  traces
	batches batches
}

// Purge implements api.Purger. It counts cached answers; captured content, stored responses, files and batches are erased
// too.
func (e erasure) Purge(ctx context.Context, organization string) (cache.Purged, error) {
	purged, err := e.answers.Purge(ctx, organization)
	if err != nil {
		return purged, err
	}
	if err := e.traces.archive.Erase(ctx, organization); err != nil {
		return cache.Purged{}, incomplete("captured requests", err)
	}
	if e.traces.responses == nil {
		return purged, nil
	}
	if _, err := e.traces.responses.Erase(ctx, organization); err != nil {
		return cache.Purged{}, incomplete("stored responses", err)
	}
	if err := e.batches.erase(ctx, organization); err != nil {
		return cache.Purged{}, err
	}
	return purged, nil
}

func incomplete(what string, err error) error {
	e := apierr.New(apierr.KindUnavailable, cache.ReasonPurgeIncomplete, what+" are not all erased yet; send the purge again")
	return e.Wrap(err)
}
