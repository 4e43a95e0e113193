package mcp

import (
	"context"
	"net/http"

	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Subscriptions keep of which resources the clients of older sessions want to be notified; see subscription.Manager.
type Subscriptions interface {
	Add(ctx context.Context, s *session.Session, uri string) error
	Remove(ctx context.Context, s *session.Session, uri string) error
	// Follow calls changed with the resources of a session, and whenever they have changed, until ctx ends. changed reports
	// whether all of them are followed.
	Follow(ctx context.Context, s *session.Session, changed func(uris []string) (whole bool))
}

// subscribes reports whether clients of an older revision may subscribe to resources.
func (h *Handler) subscribes() bool { return h.Sessions != nil && h.Subscriptions != nil }

// subscribe answers resources/subscribe, which has notices sent in the stream of the session, and resources/unsubscribe.
func (x *exchange) subscribe(ctx context.Context) {
	if x.uri == "" {
		x.fail(&wire.Error{Code: wire.CodeInvalidParams, Message: "params.uri: is required"}, http.StatusBadRequest)
		return
	}
	var err error
	if x.message.Method == wire.MethodUnsubscribe {
		err = x.handler.Subscriptions.Remove(ctx, x.session, x.uri)
	} else if err = x.followable(ctx); err == nil {
		err = x.handler.Subscriptions.Add(ctx, x.session, x.uri)
	}
	if err != nil {
		x.refuse(err)
		return
	}
	x.result(struct{}{})
}

// followable returns an error unless the caller may read a resource. Whether its server has notices of it is found out
// when it is followed.
func (x *exchange) followable(ctx context.Context) error {
	servers, err := x.handler.Tools.Follows(ctx, x.asker, x.server, []string{x.uri})
	if err == nil && len(servers) == 0 {
		return toolcall.ErrResourceNotFound
	}
	return err
}
