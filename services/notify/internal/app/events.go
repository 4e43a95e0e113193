package app

import (
	"context"
	"fmt"

	"google.golang.org/grpc/credentials/insecure"

	"switchyard.dev/services/notify/internal/egress"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/houseevent/outbox"
	"switchyard.dev/services/platform/service"
)

// dialEgress returns the client of webhook egress.
func dialEgress(s *service.Service, own WebhookSettings) (*egress.Client, error) {
	transport := insecure.NewCredentials()
	if own.EgressTLS {
		var err error
		if transport, err = own.EgressTLSFiles.Credentials(); err != nil {
			return nil, fmt.Errorf("%s_WEBHOOK_EGRESS_TLS_: %w", prefix, err)
		}
	}
	client, err := egress.Dial(own.EgressAddress, transport, own.EgressTokenFile)
	if err != nil {
		return nil, err
	}
	s.Runner.OnClose("webhook egress", func(context.Context) error { return client.Close() })
	return client, nil
}

// startEvents starts what finds events and, if there is webhook egress, what sends them to it.
func startEvents(s *service.Service, cfg Config, events *outbox.Outbox, client *egress.Client, push *pushParts) error {
	if push != nil {
		s.Runner.Go("events of VAPID keys", push.rejections.Run)
	}
	if client == nil {
		s.Runner.Go("upkeep of events", houseevent.NewRelay(events, nil, cfg.EventsOrganization, s.Log).Upkeep)
		return nil
	}
	relay := houseevent.NewRelay(events, client, cfg.EventsOrganization, s.Log)
	s.Runner.Go("events", relay.Run)
	s.Runner.Go("upkeep of events", relay.Upkeep)
	return houseevent.Measure(s.Meter, "notify", events.Waiting)
}
