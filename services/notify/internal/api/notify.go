package api

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

// headerReplayed marks a response that repeats that of an earlier request with the same idempotency key.
const headerReplayed = "Idempotent-Replayed"

type notifyServer struct {
	notifyv1.UnimplementedNotifyServiceServer

	sender Sender
	logs   SendLogs
}

// Notify accepts a notification.
func (s *notifyServer) Notify(ctx context.Context, in *notifyv1.NotifyRequest) (*notifyv1.NotifyAccepted, error) {
	request, err := newRequest(ctx, in)
	if err != nil {
		return nil, err
	}
	request.Count = takeCount(ctx)
	receipt, err := s.sender.Accept(ctx, request)
	if err != nil {
		return nil, err
	}
	rpc.Annotate(ctx, slog.String("notification_id", receipt.ID.String()), slog.Bool("replayed", receipt.Replayed))
	accepted(ctx, receipt)
	return &notifyv1.NotifyAccepted{
		NotificationId: receipt.ID.String(), AcceptedChannels: in.GetChannels(),
	}, nil
}

// accepted sets the status of an accepted request, or the header of one that was accepted before.
func accepted(ctx context.Context, receipt send.Receipt) {
	if receipt.Replayed {
		rpc.SetHeader(ctx, headerReplayed, "true")
	} else {
		rpc.SetStatus(ctx, http.StatusAccepted)
	}
}

// newRequest converts a message; organization, user and key may come from headers.
func newRequest(ctx context.Context, in *notifyv1.NotifyRequest) (send.Request, error) {
	at, err := address(ctx, in.GetOrganizationId(), in.GetTarget().GetUserId())
	if err != nil {
		return send.Request{}, err
	}
	key, err := idempotencyKey(ctx, in.GetIdempotencyKey())
	if err != nil {
		return send.Request{}, err
	}
	r := send.Request{
		Message: channel.Message{
			Organization: at.Organization, Subject: in.GetSubject(), Text: in.GetMessage(),
			Actions: actions(in.GetActions()), Target: target(in.GetTarget(), at.User), Secret: in.GetSecret(),
		},
		IdempotencyKey: key,
	}
	for _, name := range in.GetChannels() {
		r.Channels = append(r.Channels, channel.Name(name))
	}
	r.Fingerprint, err = fingerprint(in, at.Organization, at.User)
	return r, err
}

// idempotencyKey returns the key of a request, from its field or its header.
func idempotencyKey(ctx context.Context, field string) (string, error) {
	key, err := caller.From(ctx).IdempotencyKeyOf(field)
	if err != nil {
		return "", err
	}
	return key, identifier("idempotency_key", key)
}

// target converts the target fields of all channels.
func target(in *notifyv1.NotifyTarget, user string) channel.Target {
	t := channel.Target{
		WebhookURL: in.GetWebhookUrl(), SlackChannel: in.GetSlackChannel(), URL: in.GetUrl(), Payload: in.GetPayload(), Email: in.GetEmail(),
		User: user, Broadcast: in.GetBroadcast(), Site: in.GetSiteId(), Data: in.GetData(),
		Urgency: in.GetUrgency(), Topic: in.GetTopic(),
	}
	if s := in.GetSubscription(); s != nil {
		t.Subscription = &channel.Subscription{Endpoint: s.GetEndpoint(), Keys: s.GetKeys()}
	}
	if in != nil && in.TtlSeconds != nil {
		t.TTL = new(time.Duration(in.GetTtlSeconds()) * time.Second)
	}
	return t
}

// fingerprint returns the digest of a request after the fields that headers may set are filled in. It covers every
// field, even fields that no named channel reads, except the idempotency key and the secret: the digest is stored, and
// a short secret could be guessed from it.
func fingerprint(in *notifyv1.NotifyRequest, organization, user string) ([sha256.Size]byte, error) {
	whole := proto.CloneOf(in)
	whole.OrganizationId, whole.IdempotencyKey, whole.Secret = organization, "", ""
	if whole.Target == nil {
		whole.Target = &notifyv1.NotifyTarget{}
	}
	whole.Target.UserId = user
	return digest(whole)
}

// digest returns the digest of a message of the contract.
func digest(message proto.Message) ([sha256.Size]byte, error) {
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("fingerprint request: %w", err)
	}
	return sha256.Sum256(wire), nil
}

// GetSend reads the delivery log of a notification.
func (s *notifyServer) GetSend(ctx context.Context, in *notifyv1.GetSendRequest) (*notifyv1.Send, error) {
	organization, err := organization(ctx, in.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	id, err := parseID(in.GetNotificationId(), send.ErrNotFound)
	if err != nil {
		return nil, err
	}
	after, err := attemptCursor.decode(in.GetCursor())
	if err != nil {
		return nil, err
	}
	log, err := s.logs.Log(ctx, send.LogQuery{ID: id, Organization: organization, After: after, Limit: pageSize(in.GetLimit())})
	if err != nil {
		return nil, err
	}
	return sendMessage(log), nil
}

// ListSends lists notifications, newest first.
func (s *notifyServer) ListSends(ctx context.Context, in *notifyv1.ListSendsRequest) (*notifyv1.ListSendsResponse, error) {
	query, err := listQuery(ctx, in)
	if err != nil {
		return nil, err
	}
	page, next, err := s.logs.List(ctx, query)
	if err != nil {
		return nil, err
	}
	out := &notifyv1.ListSendsResponse{NextCursor: encodePlace(next)}
	for _, log := range page {
		out.Sends = append(out.Sends, sendMessage(log))
	}
	return out, nil
}

// listQuery converts the filters of a list of sends, of an organization or, for operators, of every one.
func listQuery(ctx context.Context, in *notifyv1.ListSendsRequest) (q send.ListQuery, err error) {
	q = send.ListQuery{Every: in.GetAllOrganizations(), Channel: channel.Name(in.GetChannel()), Limit: pageSize(in.GetLimit())}
	if q.Every {
		err = caller.From(ctx).EveryOrganization(in.GetOrganizationId())
	} else {
		q.Organization, err = organization(ctx, in.GetOrganizationId())
	}
	if err != nil {
		return q, err
	}
	for _, status := range in.GetStatus() {
		q.Statuses = append(q.Statuses, send.Status(status))
	}
	if q.From, err = moment("created_after", in.GetCreatedAfter()); err != nil {
		return q, err
	}
	if q.To, err = moment("created_before", in.GetCreatedBefore()); err != nil {
		return q, err
	}
	q.Before, err = decodePlace(in.GetCursor())
	return q, err
}

// moment returns the time in a field; the zero time if it is absent.
func moment(field string, t *timestamppb.Timestamp) (time.Time, error) {
	switch {
	case t == nil:
		return time.Time{}, nil
	case t.CheckValid() != nil:
		return time.Time{}, apierr.Invalid(field, "must be a time between the years 1 and 9999")
	}
	return t.AsTime(), nil
}
