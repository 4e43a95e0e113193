package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"switchyard.dev/services/gateway/internal/egress"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/operations/event"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/service"
)

// Events are the settings of the events that the gateway sends to webhook egress.
type Events struct {
	EgressAddress   string      `env:"EGRESS_ADDRESS" doc:"host:port of the gRPC face of webhook egress, which fans out the gateway's events; no event is sent when empty"`
	EgressTokenFile secret.File `env:"EGRESS_TOKEN_FILE" doc:"file with the service token for webhook egress; required with its address"`
	EgressTLS       bool        `env:"EGRESS_TLS" envDefault:"false" doc:"use TLS for webhook egress"`

	EgressTLSFiles rpc.ClientTLS `envPrefix:"EGRESS_TLS_"`

	Organization string `env:"ORGANIZATION" envDefault:"switchyard" doc:"organization that gets the events of no single organization, such as a provider's circuit"`
	RotationDays int    `env:"ROTATION_DAYS" envDefault:"90" doc:"days after which a key of the operator is due for rotation, which is told once; 0 for never"`
}

func (e Events) validate() error {
	errs := []error{e.EgressTLSFiles.Check(prefix + "_EVENTS_EGRESS_TLS_")}
	if e.EgressAddress != "" && e.EgressTokenFile == "" {
		errs = append(errs, errors.New(prefix+"_EVENTS_EGRESS_TOKEN_FILE: required with "+prefix+"_EVENTS_EGRESS_ADDRESS"))
	}
	if e.EgressTLSFiles != (rpc.ClientTLS{}) && !e.EgressTLS {
		errs = append(errs, errors.New(prefix+"_EVENTS_EGRESS_TLS: must be true where its files are set"))
	}
	if !houseevent.MayReceive(e.Organization) {
		errs = append(errs, errors.New(prefix+"_EVENTS_ORGANIZATION: "+houseevent.OrganizationRule))
	}
	if e.RotationDays < 0 || e.RotationDays > maxRotationDays {
		errs = append(errs, fmt.Errorf("%s_EVENTS_ROTATION_DAYS: must be 0 to %d", prefix, maxRotationDays))
	}
	return errors.Join(errs...)
}

// maxRotationDays is ten years, as for organizations' credentials.
const maxRotationDays = 3650

// startEvents starts what finds events and, if webhook egress is set, what sends them.
func startEvents(s *service.Service, cfg Config, stores stores, g governance, p pipeline) error {
	outbox := postgres.NewHouseEvents(stores.pool)
	s.Runner.Go("budgets", event.NewBudgets(outbox, s.Log).Run)
	observer := event.NewObserver(outbox, func() []event.Circuit { return openCircuits(p.health.Snapshot()) },
		func(now time.Time) []event.Model { return noticedModels(g.models.Registry().Notices(now), now) }, s.Log)
	s.Runner.Go("events of circuits", observer.RunCircuits)
	s.Runner.Go("events of models", observer.RunModels)
	credentials := event.NewCredentials(outbox, calls{p.health}, p.fleets.keyAges, cfg.Events.RotationDays, s.Log)
	s.Runner.Go("events of credentials", credentials.RunFailing)
	s.Runner.Go("events of rotations", credentials.RunRotations)
	if cfg.Events.EgressAddress == "" {
		s.Runner.Go("upkeep of events", houseevent.NewRelay(outbox, nil, cfg.Events.Organization, s.Log).Upkeep)
		return nil
	}
	client, err := dialEgress(cfg.Events)
	if err != nil {
		return err
	}
	s.Runner.OnClose("webhook egress", func(context.Context) error { return client.Close() })
	relay := houseevent.NewRelay(outbox, client, cfg.Events.Organization, s.Log)
	s.Runner.Go("events", relay.Run)
	s.Runner.Go("upkeep of events", relay.Upkeep)
	return houseevent.Measure(s.Meter, "switchyard.gateway", outbox.Waiting)
}

// openCircuits returns the circuits that are not closed.
func openCircuits(all []health.Status) (open []event.Circuit) {
	for _, c := range all {
		if c.Phase != health.Closed {
			open = append(open, event.Circuit{Provider: c.Provider, Family: c.Family})
		}
	}
	return open
}

// calls implements event.Calls by what the monitor of calls found.
type calls struct{ monitor *health.Monitor }

// Take implements event.Calls.
func (c calls) Take() (refused []event.Refused, taken []event.Taken) {
	failed, good := c.monitor.TakeCredentials()
	for _, f := range failed {
		refused = append(refused, event.Refused{Credential: event.Credential(f.CredentialID), Status: f.Status})
	}
	for _, g := range good {
		taken = append(taken, event.Taken{Credential: event.Credential(g.CredentialID), Begun: g.Begun})
	}
	return refused, taken
}

// Watch implements event.Calls.
func (c calls) Watch(failing []event.Credential) {
	ids := make([]health.CredentialID, len(failing))
	for i, f := range failing {
		ids[i] = health.CredentialID(f)
	}
	c.monitor.WatchCredentials(ids)
}

// keyAges returns the ages of the operator's keys.
func (f *fleets) keyAges() []event.Key {
	ages := f.present.Load().keys.Ages()
	keys := make([]event.Key, len(ages))
	for i, a := range ages {
		keys[i] = event.Key{Provider: a.Provider, Name: a.Credential, Fingerprint: a.Fingerprint, SetAt: a.SetAt}
	}
	return keys
}

// noticedModels returns the models of notices.
func noticedModels(notices []catalog.Notice, now time.Time) []event.Model {
	models := make([]event.Model, len(notices))
	for i, n := range notices {
		models[i] = event.Model{
			Provider: n.Provider, Model: n.Model, Successor: n.Successor,
			Deprecated: n.Status(now) != catalog.Active, Cutoff: n.Cutoff,
		}
	}
	return models
}

func dialEgress(cfg Events) (*egress.Client, error) {
	over := insecure.NewCredentials()
	if cfg.EgressTLS {
		var err error
		if over, err = cfg.EgressTLSFiles.Credentials(); err != nil {
			return nil, fmt.Errorf("%s_EVENTS_EGRESS_TLS_: %w", prefix, err)
		}
	}
	return egress.Dial(cfg.EgressAddress, over, cfg.EgressTokenFile)
}
