package api

import (
	"context"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// defaultPage is the page size of a list without a limit.
const defaultPage = 50

func pageSize(limit int32) int {
	if limit == 0 {
		return defaultPage
	}
	return int(limit)
}

// organization returns the organization that a request acts for.
func organization(ctx context.Context, field string) (string, error) {
	id, err := caller.From(ctx).OrganizationOf(field)
	if err != nil {
		return "", err
	}
	return id, identifier("organization_id", id)
}

// address returns the inbox that a request names by headers or fields.
func address(ctx context.Context, organizationField, userField string) (inbox.Address, error) {
	organization, err := organization(ctx, organizationField)
	if err != nil {
		return inbox.Address{}, err
	}
	user, err := caller.From(ctx).UserOf(userField)
	if err == nil {
		err = identifier("user_id", user)
	}
	return inbox.Address{Organization: organization, User: user}, err
}

// identifier checks an id from a body by the rule for ids from headers.
func identifier(field, id string) error {
	if !caller.Printable(id) {
		return apierr.Invalid(field, "must be printable ASCII without spaces")
	}
	return nil
}

// parseID parses an id that this service issued. Any other text identifies nothing, and the result is missing.
func parseID(text string, missing error) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text {
		return uuid.UUID{}, missing
	}
	return id, nil
}

func notificationMessage(r inbox.Record) *notifyv1.Notification {
	out := &notifyv1.Notification{
		Id: r.ID.String(), OrganizationId: r.Inbox.Organization, NotificationId: r.Send.String(),
		Subject: r.Subject, Message: r.Message, Url: r.URL, Data: r.Data,
		Read: r.ReadAt != nil, ReadAt: timestamp(r.ReadAt), CreatedAt: timestamppb.New(r.CreatedAt),
		Actions: actionMessages(r.Actions), UpdatedAt: timestamp(r.UpdatedAt),
	}
	if r.Inbox.User != "" {
		out.UserId = wrapperspb.String(r.Inbox.User)
	}
	return out
}

func sendMessage(l send.Log) *notifyv1.Send {
	out := &notifyv1.Send{
		NotificationId: l.ID.String(), OrganizationId: l.Organization, Status: string(l.Status()),
		CreatedAt: timestamppb.New(l.CreatedAt), UpdatedAt: timestamppb.New(l.UpdatedAt),
	}
	out.Channels = channelMessages(l.Channels)
	for _, u := range l.Updates {
		out.Updates = append(out.Updates, &notifyv1.SendUpdate{
			UpdateId: u.ID.String(), Number: int32(u.Number), Status: string(u.Status()), Channels: channelMessages(u.Channels),
			CreatedAt: timestamppb.New(u.CreatedAt), UpdatedAt: timestamppb.New(u.UpdatedAt),
		})
	}
	if l.Of != nil {
		out.UpdatesNotificationId = wrapperspb.String(l.Of.String())
	}
	for _, a := range l.Attempts {
		out.Attempts = append(out.Attempts, attemptMessage(a))
	}
	if l.More {
		out.NextCursor = attemptCursor.encode(l.Attempts[len(l.Attempts)-1].Seq)
	}
	return out
}

func channelMessages(logs []send.ChannelLog) []*notifyv1.ChannelOutcome {
	out := make([]*notifyv1.ChannelOutcome, len(logs))
	for i, c := range logs {
		out[i] = channelMessage(c)
	}
	return out
}

func channelMessage(c send.ChannelLog) *notifyv1.ChannelOutcome {
	return &notifyv1.ChannelOutcome{
		Channel: string(c.Channel), Status: string(c.State), Outcome: text(c.Outcome),
		Attempts: int32(c.Attempts), LastError: text(c.LastError), NextAttemptAt: timestamp(c.NextAttemptAt()),
		TargetedCount: int32(c.Targeted), DeliveredCount: int32(c.Delivered),
		FailedCount: int32(c.Failed), RemovedCount: int32(c.Removed),
		Truncated: c.Truncated, DeliveryId: text(c.DeliveryID), FinishedAt: timestamp(c.FinishedAt),
		PossiblyDuplicated: c.PossiblyDuplicated, ActionsShown: int32(c.ActionsShown), Replaced: c.Replaced,
		SupersededCount: int32(c.Superseded),
	}
}

func attemptMessage(a send.Attempt) *notifyv1.SendAttempt {
	out := &notifyv1.SendAttempt{
		Channel: string(a.Channel), Number: int32(a.Number), Outcome: a.Outcome, Error: text(a.Error), Detail: text(a.Detail),
		StartedAt: timestamppb.New(a.StartedAt), DurationMs: a.Milliseconds,
	}
	if a.Subscription != nil {
		out.SubId = wrapperspb.String(a.Subscription.String())
	}
	if a.Code != nil {
		out.ResponseCode = wrapperspb.Int32(*a.Code)
	}
	if a.RetryAfter != nil {
		out.RetryAfterSeconds = wrapperspb.Double(*a.RetryAfter)
	}
	return out
}

func text(s *string) *wrapperspb.StringValue {
	if s == nil {
		return nil
	}
	return wrapperspb.String(*s)
}

func timestamp(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}
