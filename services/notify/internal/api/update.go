package api

import (
	"context"
	"log/slog"

	"google.golang.org/protobuf/proto"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/platform/rpc"
)

// UpdateSend replaces what a notification says.
func (s *notifyServer) UpdateSend(ctx context.Context, in *notifyv1.UpdateSendRequest) (*notifyv1.SendUpdateAccepted, error) {
	request, err := newUpdate(ctx, in)
	if err != nil {
		return nil, err
	}
	request.Count = takeCount(ctx)
	receipt, err := s.sender.Update(ctx, request)
	if err != nil {
		return nil, err
	}
	rpc.Annotate(ctx, slog.String("notification_id", in.GetNotificationId()), slog.String("update_id", receipt.ID.String()),
		slog.Bool("replayed", receipt.Replayed))
	accepted(ctx, receipt)
	out := &notifyv1.SendUpdateAccepted{
		NotificationId: in.GetNotificationId(), UpdateId: receipt.ID.String(), Number: int32(receipt.Number),
	}
	for _, name := range receipt.Channels {
		out.AcceptedChannels = append(out.AcceptedChannels, string(name))
	}
	return out, nil
}

// newUpdate converts an update; organization and key may come from headers.
func newUpdate(ctx context.Context, in *notifyv1.UpdateSendRequest) (send.Request, error) {
	organization, err := organization(ctx, in.GetOrganizationId())
	if err != nil {
		return send.Request{}, err
	}
	id, err := parseID(in.GetNotificationId(), send.ErrNotFound)
	if err != nil {
		return send.Request{}, err
	}
	key, err := idempotencyKey(ctx, in.GetIdempotencyKey())
	if err != nil {
		return send.Request{}, err
	}
	whole := proto.CloneOf(in)
	whole.OrganizationId, whole.IdempotencyKey = organization, ""
	r := send.Request{IdempotencyKey: key, Message: channel.Message{
		Organization: organization, Updates: id, Subject: in.GetSubject(), Text: in.GetMessage(), Actions: actions(in.GetActions()),
	}}
	r.Fingerprint, err = digest(whole)
	return r, err
}

// actions converts the buttons of a message.
func actions(in []*notifyv1.Action) []inbox.Action {
	var out []inbox.Action
	for _, a := range in {
		out = append(out, inbox.Action{ID: a.GetId(), Label: a.GetLabel(), Style: a.GetStyle(), URL: a.GetUrl(), Value: a.GetValue()})
	}
	return out
}

// actionMessages converts the buttons of a record.
func actionMessages(in []inbox.Action) []*notifyv1.Action {
	var out []*notifyv1.Action
	for _, a := range in {
		out = append(out, &notifyv1.Action{Id: a.ID, Label: a.Label, Style: a.Style, Url: a.URL, Value: a.Value})
	}
	return out
}
