// Package egress is the client of webhook egress: it enqueues a delivery and reads its state, and sends events. The
// webhook channel uses it through the interface channel.Egress, the relay of package houseevent as its Sender;
// internal/app creates it.
package egress

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/secret"
)

// Client calls webhook egress. It is safe for concurrent use.
type Client struct {
	conn       *grpc.ClientConn
	deliveries webhooksv1.DeliveryServiceClient
	events     webhooksv1.HouseEventServiceClient
	token      secret.File
}

var (
	_ channel.Egress    = (*Client)(nil)
	_ houseevent.Sender = (*Client)(nil)
)

// source is the source of notify's events.
const source = "/switchyard/notify"

// Dial returns a client of the gRPC face at an address; it connects on first use. The token is read for each call, so
// that it can be replaced.
func Dial(address string, transport credentials.TransportCredentials, token secret.File) (*Client, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport))
	if err != nil {
		return nil, fmt.Errorf("webhook egress at %q: %w", address, err)
	}
	return &Client{
		conn: conn, deliveries: webhooksv1.NewDeliveryServiceClient(conn), events: webhooksv1.NewHouseEventServiceClient(conn), token: token,
	}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Enqueue implements channel.Egress.
func (c *Client) Enqueue(ctx context.Context, d channel.Delivery) (id string, err error) {
	ctx, err = c.as(ctx, d.Organization)
	if err != nil {
		return "", err
	}
	accepted, err := c.deliveries.Enqueue(ctx, &webhooksv1.EnqueueRequest{
		OrganizationId: d.Organization, Url: d.URL, EventType: d.EventType, Payload: d.Payload,
		IdempotencyKey: d.Key, DeadlineAt: timestamppb.New(d.Deadline),
	})
	if err != nil {
		return "", failure(err)
	}
	return accepted.GetDeliveryId(), nil
}

// Delivery implements channel.Egress.
func (c *Client) Delivery(ctx context.Context, organization, id string) (channel.DeliveryState, error) {
	ctx, err := c.as(ctx, organization)
	if err != nil {
		return channel.DeliveryState{}, err
	}
	d, err := c.deliveries.GetDelivery(ctx, &webhooksv1.GetDeliveryRequest{Id: id, OrganizationId: organization})
	if err != nil {
		return channel.DeliveryState{}, failure(err)
	}
	state := channel.DeliveryState{
		Code: int(d.GetLastResponseCode().GetValue()), Class: channel.Class(d.GetLastError().GetValue()),
	}
	switch d.GetStatus() {
	case "delivered":
		state.Ended, state.Delivered = true, true
	case "failed", "expired", "cancelled":
		state.Ended = true
		if state.Class == channel.ClassNone {
			state.Class = channel.Class(d.GetStatus())
		}
	}
	return state, nil
}

// Send implements houseevent.Sender. Webhook egress knows repeats by the event's ID.
func (c *Client) Send(ctx context.Context, e houseevent.Event) error {
	ctx, err := c.as(ctx, e.Organization)
	if err != nil {
		return err
	}
	_, err = c.events.EmitHouseEvent(ctx, &webhooksv1.EmitHouseEventRequest{
		OrganizationId: e.Organization, EventId: e.ID, Type: e.Type, Source: source, Subject: e.Subject,
		OccurredAt: timestamppb.New(e.OccurredAt), Data: e.Data,
	})
	if err != nil {
		return fmt.Errorf("webhook egress: %w", err)
	}
	return nil
}

// as adds the service token and the organization to the call.
func (c *Client) as(ctx context.Context, organization string) (context.Context, error) {
	token, err := c.token.Read()
	if err != nil {
		return nil, &channel.EgressError{Kind: channel.Auth, Class: channel.ClassCredential}
	}
	return metadata.AppendToOutgoingContext(ctx,
		"authorization", "Bearer "+token.Reveal(), "x-organization-id", organization), nil
}

// failure converts a call's error to one that reports whether it may be retried.
func failure(err error) error {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.AlreadyExists, codes.Aborted:
		return &channel.EgressError{Kind: channel.Permanent, Class: "delivery_refused", Text: status.Convert(err).Message()}
	case codes.NotFound:
		return &channel.EgressError{Kind: channel.Permanent, Class: "delivery_not_found"}
	case codes.Unauthenticated, codes.PermissionDenied:
		return &channel.EgressError{Kind: channel.Auth, Class: channel.ClassCredential}
	case codes.DeadlineExceeded:
		return &channel.EgressError{Kind: channel.RetryAfter, Class: channel.ClassTimeout}
	case codes.ResourceExhausted:
		return &channel.EgressError{Kind: channel.RetryAfter, Class: channel.ClassRate, After: time.Second}
	default:
		return &channel.EgressError{Kind: channel.RetryAfter, Class: channel.ClassConnect}
	}
}
