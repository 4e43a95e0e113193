package api

import (
	"encoding/base64"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// requestOf converts a message. It leaves out organization, owner, key and trace, which depend on the caller's
// identity.
func requestOf(r *webhooksv1.EnqueueRequest) delivery.Request {
	return delivery.Request{
		URL: r.GetUrl(), EventType: r.GetEventType(), Payload: r.GetPayload(), Headers: r.GetCustomHeaders(),
		MaxAttempts: intOf(r.MaxAttempts), Deadline: timeOf(r.GetDeadlineAt()), OrderingKey: r.GetOrderingKey(),
	}
}

// intOf returns nil, and timeOf the zero time, for a field that is absent.
func intOf(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

func statusesOf(names []string) []delivery.Status {
	if len(names) == 0 {
		return nil
	}
	statuses := make([]delivery.Status, len(names))
	for i, name := range names {
		statuses[i] = delivery.Status(name)
	}
	return statuses
}

func acceptedOf(a delivery.Accepted) *webhooksv1.EnqueueAccepted {
	return &webhooksv1.EnqueueAccepted{
		DeliveryId: a.ID.String(), OrganizationId: a.Organization, Status: string(a.Status),
		IdempotencyKey: textOrNull(a.Key), Deduplicated: a.Deduplicated,
	}
}

func recordOf(r delivery.Record) *webhooksv1.DeliveryRecord {
	return &webhooksv1.DeliveryRecord{
		DeliveryId: r.ID.String(), OrganizationId: r.Organization, OwnerId: textOrNull(r.Owner), Url: r.URL,
		EventType: r.EventType, Status: string(r.Status), Attempts: int32(r.Attempts), MaxAttempts: int32(r.MaxAttempts),
		LastResponseCode: codeOrNull(r.LastResponseCode), LastError: textOrNull(r.LastError),
		EndpointId: textOrNull(r.EndpointID), SigningMode: r.SigningMode, NextAttemptAt: timeOrNull(r.NextAttempt),
		CreatedAt: timestamppb.New(r.ID.Time()), UpdatedAt: timestamppb.New(r.Updated), EventId: textOrNull(r.EventID),
		IdempotencyKey: textOrNull(r.Key), Generation: int32(r.Generation), DeadlineAt: timeOrNull(r.Deadline),
		FinishedAt: timeOrNull(r.Finished), Payload: r.Body,
		OrderingKey: textOrNull(r.OrderingKey), FilterError: textOrNull(r.FilterError),
	}
}

func attemptOf(id string, a *delivery.Attempt) *webhooksv1.Attempt {
	return &webhooksv1.Attempt{
		DeliveryId: id, Generation: int32(a.Generation), Number: int32(a.Number), Outcome: string(a.Outcome), Url: a.URL,
		RemoteIp: textOrNull(a.RemoteIP), ResponseCode: codeOrNull(a.ResponseCode), ResponseBody: a.ResponseBody,
		ResponseTruncated: a.Truncated, Error: textOrNull(string(a.Error)), RetryAfter: textOrNull(a.RetryAfter),
		StartedAt: timestamppb.New(a.Started), DnsMs: ms(a.Timing.DNS), ConnectMs: ms(a.Timing.Connect),
		TlsMs: ms(a.Timing.TLS), FirstByteMs: ms(a.Timing.FirstByte), TotalMs: ms(a.Timing.Total),
		NextAttemptAt: timeOrNull(a.Next),
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func textOrNull(s string) *wrapperspb.StringValue {
	if s == "" {
		return nil
	}
	return wrapperspb.String(s)
}

func codeOrNull(code int) *wrapperspb.Int32Value {
	if code == 0 {
		return nil
	}
	return wrapperspb.Int32(int32(code))
}

func timeOrNull(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// cursorOf returns an opaque cursor for a position; zero, the end, is the empty cursor. positionOf is its inverse.
func cursorOf(position int64) string {
	if position == 0 {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(strconv.AppendInt(nil, position, 36))
}

func positionOf(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, apierr.Invalid("cursor", "is not a cursor of this list").Wrap(err)
	}
	position, err := strconv.ParseInt(string(text), 36, 64)
	if err != nil || position < 0 {
		return 0, apierr.Invalid("cursor", "is not a cursor of this list")
	}
	return position, nil
}
