package event

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/lifecycle"
)

const (
	// circuitsEvery is the interval at which open circuits are recorded. One that no replica has recorded for unseen is
	// closed: replicas learn of each other's within a second, and one may be about to stop.
	circuitsEvery, unseen = 2 * time.Second, 15 * time.Second
	// modelsEvery is the interval at which the catalog is read.
	modelsEvery = 10 * time.Minute
	// keepModel is how long the records of a model's notices stay.
	keepModel = 400 * 24 * time.Hour
	// storeTime bounds a transaction.
	storeTime = 10 * time.Second
)

// Circuit is an open circuit of a provider and a family of its models.
type Circuit struct{ Provider, Family string }

// Model is a model of the catalog that is to be replaced.
type Model struct {
	Provider, Model, Successor string
	Deprecated                 bool
	// Cutoff is the first moment at which it is not served; zero if it is not known.
	Cutoff time.Time
}

// ObserverStore records what is true by itself, on every replica at the same time.
type ObserverStore interface {
	// Circuits records the circuits that are open on this replica, with an event for each that was not open on any, and
	// for each that none has recorded for unseen.
	Circuits(ctx context.Context, open []Circuit, unseen time.Duration) error
	// Report records events.
	Report(ctx context.Context, reports []Report) error
}

// Observer reports circuits and models to operators. Every replica runs one; what they find at the same time is one event.
type Observer struct {
	store    ObserverStore
	circuits func() []Circuit
	models   func(now time.Time) []Model
	log      *slog.Logger
}

// NewObserver returns a Observer that does nothing until it runs. circuits returns those that are open here.
func NewObserver(store ObserverStore, circuits func() []Circuit, models func(now time.Time) []Model, log *slog.Logger) *Observer {
	return &Observer{store, circuits, models, log}
}

// RunCircuits records circuits until ctx ends. It is a part of the service's lifecycle.
func (o *Observer) RunCircuits(ctx context.Context) error {
	return lifecycle.Repeat{Every: circuitsEvery, Log: o.log, Name: "events of circuits", Do: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, storeTime)
		defer cancel()
		return o.store.Circuits(ctx, o.circuits(), unseen)
	}}.Run(ctx)
}

// RunModels records notices of models, at once and then every ten minutes until ctx ends. It is a part of the service's
// lifecycle.
func (o *Observer) RunModels(ctx context.Context) error {
	first := make(chan struct{}, 1)
	first <- struct{}{}
	return lifecycle.Repeat{Every: modelsEvery, Wake: first, Log: o.log, Name: "events of models", Do: func(ctx context.Context) error {
		var errs []error
		for _, m := range o.models(time.Now()) {
			bounded, cancel := context.WithTimeout(ctx, storeTime)
			errs = append(errs, o.store.Report(bounded, Notices(m, time.Now())))
			cancel()
		}
		return errors.Join(errs...)
	}}.Run(ctx)
}

// noticeDays are how many days before its cutoff a model is told of, ascending.
var noticeDays = []int{1, 7, 30}

// Notices returns the reports of a model: that it is deprecated, and that its cutoff is in 30, 7 or 1 days,
// only the least of them that holds. A model that is no longer served has none.
func Notices(m Model, now time.Time) (reports []Report) {
	if !m.Cutoff.IsZero() && !now.Before(m.Cutoff) {
		return nil
	}
	name, data := m.Provider+"/"+m.Model, map[string]any{"provider": m.Provider, "model": m.Model, "successor": m.Successor}
	if !m.Cutoff.IsZero() {
		data["cutoff"] = m.Cutoff.Format(time.DateOnly)
	}
	if m.Deprecated {
		reports = append(reports, Report{Type: houseevent.ModelDeprecated, Subject: "model/" + name, Keep: keepModel, Data: data})
	}
	for _, days := range noticeDays {
		if m.Cutoff.IsZero() || m.Cutoff.Sub(now) > time.Duration(days)*24*time.Hour {
			continue
		}
		return append(reports, Report{
			Type: houseevent.ModelRetiring, Subject: "model/" + name, Transition: fmt.Sprint(data["cutoff"], " ", days), Keep: keepModel,
			Data: map[string]any{"provider": m.Provider, "model": m.Model, "successor": m.Successor, "cutoff": data["cutoff"], "days": days},
		})
	}
	return reports
}
