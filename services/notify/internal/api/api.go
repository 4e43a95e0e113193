// Package api implements the notify contract over the service's domain: one file per gRPC service. JSON requests
// reach the same handlers. internal/app registers it.
package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	countsv1 "switchyard.dev/gen/go/switchyard/counts/v1"
	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/platform/rpc"
)

// Sender accepts notifications.
type Sender interface {
	Accept(ctx context.Context, r send.Request) (send.Receipt, error)
	Update(ctx context.Context, r send.Request) (send.Receipt, error)
}

// SendLogs reads the delivery logs of notifications.
type SendLogs interface {
	Log(ctx context.Context, q send.LogQuery) (send.Log, error)
	List(ctx context.Context, q send.ListQuery) (page []send.Log, next send.Position, err error)
}

// Inboxes reads and changes in-app records.
type Inboxes interface {
	List(ctx context.Context, q inbox.Query) (inbox.Page, error)
	Unread(ctx context.Context, at inbox.Address) (int, error)
	MarkRead(ctx context.Context, target inbox.Target) (record inbox.Record, unread int, err error)
	MarkAllRead(ctx context.Context, at inbox.Address) (marked, unread int, err error)
	Delete(ctx context.Context, target inbox.Target) error
}

// Services holds what the handlers use.
type Services struct {
	Sender  Sender
	Logs    SendLogs
	Inboxes Inboxes
	Feed    Feed
	// CallCounts are the counts of the calls that customers are billed for.
	CallCounts CallCounts
	// Push is nil while web push is off.
	Push PushDevices
}

// Register adds the services of the contract to both faces of server.
func Register(ctx context.Context, server *rpc.Server, s Services) error {
	mux, local := server.Mux(), server.Local()
	notifyv1.RegisterNotifyServiceServer(server, &notifyServer{sender: s.Sender, logs: s.Logs})
	countsv1.RegisterCallCountServiceServer(server, &callCountServer{counts: s.CallCounts})
	inboxes := &inboxServer{inboxes: s.Inboxes, feed: s.Feed}
	notifyv1.RegisterInboxServiceServer(server, inboxes)
	server.Handle(http.MethodGet, streamPath, streamMethod, streamHandler(server, inboxes))
	err := errors.Join(
		notifyv1.RegisterNotifyServiceHandlerClient(ctx, mux, notifyv1.NewNotifyServiceClient(local)),
		notifyv1.RegisterInboxServiceHandlerClient(ctx, mux, notifyv1.NewInboxServiceClient(local)),
		countsv1.RegisterCallCountServiceHandlerClient(ctx, mux, countsv1.NewCallCountServiceClient(local)),
		registerPush(ctx, server, s.Push),
	)
	if err != nil {
		return fmt.Errorf("register services: %w", err)
	}
	return nil
}
