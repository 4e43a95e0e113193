package api

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/push"
	"switchyard.dev/services/notify/internal/webpush"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

var errPushOff = apierr.New(apierr.KindNotFound, channel.ReasonWebPushDisabled,
	"web_push_disabled: web push is off; "+channel.WebPushSetting+"=true switches it on")

// PushDevices registers browsers and reads what was pushed to them.
type PushDevices interface {
	CurrentKey() webpush.Key
	Enrol(ctx context.Context, e push.Enrolment) (device push.Device, created bool, err error)
	Devices(ctx context.Context, q push.DeviceQuery) (page []push.Device, more bool, err error)
	Delete(ctx context.Context, t push.Target) error
	History(ctx context.Context, q push.HistoryQuery) (page []push.Shown, more bool, err error)
}

// registerPush registers the push service or, while web push is off, its refusal.
func registerPush(ctx context.Context, server *rpc.Server, devices PushDevices) error {
	if devices == nil {
		hidePush(server)
		return nil
	}
	notifyv1.RegisterPushServiceServer(server, &pushServer{devices: devices})
	err := notifyv1.RegisterPushServiceHandlerClient(ctx, server.Mux(), notifyv1.NewPushServiceClient(server.Local()))
	if err != nil {
		return fmt.Errorf("push service: %w", err)
	}
	return nil
}

type pushServer struct {
	notifyv1.UnimplementedPushServiceServer

	devices PushDevices
}

// GetVapidPublicKey returns the key with which a page subscribes.
func (s *pushServer) GetVapidPublicKey(ctx context.Context, in *notifyv1.GetVapidPublicKeyRequest) (*notifyv1.VapidPublicKey, error) {
	if _, err := organization(ctx, in.GetOrganizationId()); err != nil {
		return nil, err
	}
	key := s.devices.CurrentKey()
	return &notifyv1.VapidPublicKey{PublicKey: key.Public(), KeyId: key.ID()}, nil
}

// RegisterPush registers a browser, or renews its registration.
func (s *pushServer) RegisterPush(ctx context.Context, in *notifyv1.PushSubscriptionRegister) (*notifyv1.PushRegistration, error) {
	at, err := address(ctx, in.GetOrganizationId(), in.GetUserId())
	if err == nil {
		err = identifier("site_id", in.GetSiteId())
	}
	if err != nil {
		return nil, err
	}
	expires, err := expiry(in.GetSubscription())
	if err != nil {
		return nil, err
	}
	who := caller.From(ctx)
	device, created, err := s.devices.Enrol(ctx, push.Enrolment{
		Organization: at.Organization, User: at.User, Site: in.GetSiteId(), Platform: in.GetPlatform(),
		Endpoint: in.GetSubscription().GetEndpoint(), Keys: in.GetSubscription().GetKeys(),
		KeyID: in.GetVapidKeyId(), ExpiresAt: expires, ByUser: who.UserVerified && who.User == at.User,
	})
	if err != nil {
		return nil, err
	}
	if created {
		rpc.SetStatus(ctx, http.StatusCreated)
	}
	return registrationMessage(device), nil
}

// lastMillisecond is the end of the year 9999, the last that RFC 3339 can represent.
const lastMillisecond = 253402300799999

// expiry returns when the browser lets a subscription expire; nil if it does not say.
func expiry(s *notifyv1.PushSubscription) (*time.Time, error) {
	if s == nil || s.ExpirationTime == nil {
		return nil, nil
	}
	ms := s.GetExpirationTime()
	if math.IsNaN(ms) || ms > lastMillisecond {
		return nil, apierr.Invalid("subscription.expiration_time", "must be epoch milliseconds before the year 10000")
	}
	return new(time.UnixMilli(int64(ms)).UTC()), nil
}

// ListPushRegistrations lists devices, newest first.
func (s *pushServer) ListPushRegistrations(ctx context.Context, in *notifyv1.ListPushRegistrationsRequest) (*notifyv1.ListPushRegistrationsResponse, error) {
	at, err := registry(ctx, in)
	if err != nil {
		return nil, err
	}
	before, err := decodeDevice(in.GetCursor())
	if err != nil {
		return nil, err
	}
	page, more, err := s.devices.Devices(ctx, push.DeviceQuery{
		Organization: at.Organization, Every: in.GetAllOrganizations(), User: at.User, Site: in.GetSiteId(), Before: before, Limit: pageSize(in.GetLimit()),
	})
	if err != nil {
		return nil, err
	}
	out := &notifyv1.ListPushRegistrationsResponse{}
	for _, device := range page {
		out.Registrations = append(out.Registrations, registrationMessage(device))
	}
	if more {
		out.NextCursor = encodeDevice(page[len(page)-1].ID)
	}
	return out, nil
}

// registry returns whose devices are listed: of an organization, or for operators of every one.
func registry(ctx context.Context, in *notifyv1.ListPushRegistrationsRequest) (at inbox.Address, err error) {
	if !in.GetAllOrganizations() {
		return address(ctx, in.GetOrganizationId(), in.GetUserId())
	}
	c := caller.From(ctx)
	if err := c.EveryOrganization(in.GetOrganizationId()); err != nil {
		return inbox.Address{}, err
	}
	if at.User, err = c.UserOf(in.GetUserId()); err == nil {
		err = identifier("user_id", at.User)
	}
	return at, err
}

// DeletePushRegistration deletes a device.
func (s *pushServer) DeletePushRegistration(ctx context.Context, in *notifyv1.DeletePushRegistrationRequest) (*emptypb.Empty, error) {
	at, err := address(ctx, in.GetOrganizationId(), in.GetUserId())
	if err != nil {
		return nil, err
	}
	id, err := parseID(in.GetSubId(), push.ErrNotFound)
	if err != nil {
		return nil, err
	}
	if err := s.devices.Delete(ctx, push.Target{ID: id, Organization: at.Organization, User: at.User}); err != nil {
		return nil, err
	}
	rpc.SetStatus(ctx, http.StatusNoContent)
	return &emptypb.Empty{}, nil
}

// ListPushHistory lists what was pushed, newest first.
func (s *pushServer) ListPushHistory(ctx context.Context, in *notifyv1.ListPushHistoryRequest) (*notifyv1.ListPushHistoryResponse, error) {
	at, err := address(ctx, in.GetOrganizationId(), in.GetUserId())
	if err != nil {
		return nil, err
	}
	before, err := historyCursor.decode(in.GetCursor())
	if err != nil {
		return nil, err
	}
	page, more, err := s.devices.History(ctx, push.HistoryQuery{
		Organization: at.Organization, User: at.User, Site: in.GetSiteId(), Before: before, Limit: pageSize(in.GetLimit()),
	})
	if err != nil {
		return nil, err
	}
	out := &notifyv1.ListPushHistoryResponse{}
	for _, row := range page {
		out.History = append(out.History, historyMessage(row))
	}
	if more {
		out.NextCursor = historyCursor.encode(page[len(page)-1].Seq)
	}
	return out, nil
}

func registrationMessage(d push.Device) *notifyv1.PushRegistration {
	return &notifyv1.PushRegistration{
		SubId: d.ID.String(), OrganizationId: d.Organization, UserId: optional(d.User), SiteId: optional(d.Site), Platform: d.Platform,
		EndpointOrigin: d.Origin, VapidKeyId: d.KeyID, Status: string(d.Status),
		ExpiresAt: timestamp(d.ExpiresAt), LastDeliveredAt: timestamp(d.LastDeliveredAt),
		CreatedAt: timestamppb.New(d.CreatedAt), UpdatedAt: timestamppb.New(d.UpdatedAt), RegisteredByUser: d.ByUser,
	}
}

func historyMessage(s push.Shown) *notifyv1.PushHistoryItem {
	return &notifyv1.PushHistoryItem{
		NotificationId: s.Send.String(), UserId: s.User, Title: s.Title, Body: s.Body, Url: s.URL, Data: s.Data, SiteId: s.Site,
		Status: s.Status, DeliveredCount: int32(s.Delivered), CreatedAt: float64(s.CreatedAt.UnixMilli()) / 1000,
	}
}

// optional returns nil for an empty text.
func optional(text string) *wrapperspb.StringValue {
	if text == "" {
		return nil
	}
	return wrapperspb.String(text)
}

// decodeDevice returns the position in a cursor of a list of devices; the nil id is the beginning.
func decodeDevice(cursor string) (uuid.UUID, error) {
	if cursor == "" {
		return uuid.Nil, nil
	}
	return parseID(cursor, errCursor)
}

// encodeDevice returns the cursor of a position. Ids of devices are not secret: the list shows them.
func encodeDevice(id uuid.UUID) string { return id.String() }
