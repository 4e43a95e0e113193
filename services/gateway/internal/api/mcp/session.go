package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
)

// Sessions are the sessions of the older revisions; see session.Manager.
type Sessions interface {
	Begin(of session.Owner, version string, capabilities json.RawMessage) (id string, err error)
	Open(ctx context.Context, of session.Owner, id string) (*session.Session, error)
	End(ctx context.Context, of session.Owner, id string) error
	SetLevel(ctx context.Context, s *session.Session, level int) error
}

// ownerOf returns whose the sessions of a caller are, on the path of a server.
func ownerOf(a *toolcall.Asker, server string) session.Owner {
	of := session.Owner{Organization: a.Organization, Key: a.KeyTerms.Key, Service: a.Service, User: a.User, Server: server}
	if of.Key == "" {
		of.Key = a.Key
	}
	return of
}

// open opens the session that a request of an older revision names. A handshake begins another one.
func (h *Handler) open(ctx context.Context, in *incoming, a *toolcall.Asker, server string) *refusal {
	id := in.header.Get(wire.HeaderSession)
	if in.modern || id == "" || h.Sessions == nil || in.message.Method == wire.MethodInitialize {
		return nil
	}
	var err error
	if in.session, err = h.Sessions.Open(ctx, ownerOf(a, server), id); err != nil {
		return refusalOf(err, in.message.ID, a.RequestID)
	}
	in.level = wire.LevelName(in.session.Level)
	switch in.version {
	case "":
		in.version = in.session.Version
	case in.session.Version:
	default:
		refused := refuse(http.StatusBadRequest, wire.CodeInvalidRequest, wire.HeaderVersion+": must be the version of the session")
		refused.id = in.message.ID
		return refused
	}
	return nil
}

// refusalOf returns an error of the gateway as the answer to a request that has not begun, with its own status.
func refusalOf(err error, id json.RawMessage, requestID string) *refusal {
	shown := apierr.From(err)
	return &refusal{shown.Kind.HTTPStatus(), id, errorOf(shown, requestID, "")}
}

// begin gives the client a session, where there are sessions.
func (x *exchange) begin(version string, capabilities json.RawMessage) {
	if x.handler.Sessions == nil {
		return
	}
	id, err := x.handler.Sessions.Begin(ownerOf(x.asker, x.server), version, capabilities)
	if err != nil {
		return // Sessions are optional: the client goes on without one.
	}
	x.reply.w.Header().Set(wire.HeaderSession, id)
}

// End ends the session that a request names. The error is one of the caller's identity.
func (h *Handler) End(w http.ResponseWriter, r *http.Request, server string) error {
	asker, id, err := h.ofSession(w, r)
	if err != nil {
		return err
	}
	if err := h.Sessions.End(r.Context(), ownerOf(&asker, server), id); err != nil {
		refusalOf(err, nil, asker.RequestID).write(w)
		return nil
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// ofSession returns who makes a request by a method that has a meaning in a session alone, and the session's id.
func (h *Handler) ofSession(w http.ResponseWriter, r *http.Request) (asker toolcall.Asker, id string, err error) {
	if refused := h.allows(r); refused != nil {
		return asker, "", refused
	}
	if asker, err = h.Asker(r.Context()); err != nil {
		return asker, "", fmt.Errorf("identity: %w", err)
	}
	if id = r.Header.Get(wire.HeaderSession); h.Sessions == nil || id == "" {
		return asker, "", notAllowed(w)
	}
	return asker, id, nil
}

// notAllowed returns the error of a method of HTTP that has no meaning here.
func notAllowed(w http.ResponseWriter) error {
	w.Header().Set("Allow", http.MethodPost)
	return apierr.New(apierr.KindMethodNotAllowed, apierr.ReasonMethodNotAllowed, "this method has no meaning here")
}
