// Package egress is the client of webhook egress, which fans out the gateway's events. The relay of package houseevent uses it;
// internal/app creates it.
package egress

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/secret"
)

// source is the source of the gateway's events.
const source = "/switchyard/gateway"

// Client calls webhook egress. It is safe for concurrent use.
type Client struct {
	conn   *grpc.ClientConn
	events webhooksv1.HouseEventServiceClient
	token  secret.File
}

var _ houseevent.Sender = (*Client)(nil)

// Dial returns a client of the gRPC face at an address; it connects on first use. The token is read for each call, so
// that it can be replaced.
func Dial(address string, transport credentials.TransportCredentials, token secret.File) (*Client, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport))
	if err != nil {
		return nil, fmt.Errorf("webhook egress at %q: %w", address, err)
	}
	return &Client{conn: conn, events: webhooksv1.NewHouseEventServiceClient(conn), token: token}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Send implements houseevent.Sender. Webhook egress knows repeats by the event's ID.
func (c *Client) Send(ctx context.Context, e houseevent.Event) error {
	token, err := c.token.Read()
	if err != nil {
		return fmt.Errorf("token for webhook egress: %w", err)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token.Reveal(), "x-organization-id", e.Organization)
	_, err = c.events.EmitHouseEvent(ctx, &webhooksv1.EmitHouseEventRequest{
		OrganizationId: e.Organization, EventId: e.ID, Type: e.Type, Source: source, Subject: e.Subject,
		OccurredAt: timestamppb.New(e.OccurredAt), Data: e.Data,
	})
	if err != nil {
		return fmt.Errorf("webhook egress: %w", err)
	}
	return nil
}
