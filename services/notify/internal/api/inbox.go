package api

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/types/known/emptypb"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/platform/rpc"
)

type inboxServer struct {
	notifyv1.UnimplementedInboxServiceServer

	inboxes Inboxes
	feed    Feed
}

// ListNotifications lists an inbox, newest first.
func (s *inboxServer) ListNotifications(ctx context.Context, in *notifyv1.ListNotificationsRequest) (*notifyv1.ListNotificationsResponse, error) {
	at, err := address(ctx, in.GetOrganizationId(), in.GetUserId())
	if err != nil {
		return nil, err
	}
	before, err := inboxCursor.decode(in.GetCursor())
	if err != nil {
		return nil, err
	}
	page, err := s.inboxes.List(ctx, inbox.Query{
		Inbox: at, UnreadOnly: in.GetUnread(), Before: before, Limit: pageSize(in.GetLimit()),
	})
	if err != nil {
		return nil, err
	}
	out := &notifyv1.ListNotificationsResponse{UnreadCount: int32(page.Unread)}
	for _, record := range page.Records {
		out.Notifications = append(out.Notifications, notificationMessage(record))
	}
	if page.More {
		out.NextCursor = inboxCursor.encode(page.Records[len(page.Records)-1].Seq)
	}
	return out, nil
}

// GetUnreadCount reads the unread count of an inbox.
func (s *inboxServer) GetUnreadCount(ctx context.Context, in *notifyv1.GetUnreadCountRequest) (*notifyv1.GetUnreadCountResponse, error) {
	at, err := address(ctx, in.GetOrganizationId(), in.GetUserId())
	if err != nil {
		return nil, err
	}
	unread, err := s.inboxes.Unread(ctx, at)
	if err != nil {
		return nil, err
	}
	return &notifyv1.GetUnreadCountResponse{UnreadCount: int32(unread)}, nil
}

// MarkAllRead marks every record of an inbox read.
func (s *inboxServer) MarkAllRead(ctx context.Context, in *notifyv1.MarkAllReadRequest) (*notifyv1.MarkAllReadResponse, error) {
	at, err := address(ctx, in.GetOrganizationId(), in.GetUserId())
	if err != nil {
		return nil, err
	}
	marked, unread, err := s.inboxes.MarkAllRead(ctx, at)
	if err != nil {
		return nil, err
	}
	return &notifyv1.MarkAllReadResponse{Marked: int32(marked), UnreadCount: int32(unread)}, nil
}

// MarkRead marks one record read; a read one stays as it is.
func (s *inboxServer) MarkRead(ctx context.Context, in *notifyv1.MarkReadRequest) (*notifyv1.MarkReadResponse, error) {
	target, err := recordTarget(ctx, in)
	if err != nil {
		return nil, err
	}
	record, unread, err := s.inboxes.MarkRead(ctx, target)
	if err != nil {
		return nil, err
	}
	return &notifyv1.MarkReadResponse{Notification: notificationMessage(record), UnreadCount: int32(unread)}, nil
}

// DeleteNotification deletes one record.
func (s *inboxServer) DeleteNotification(ctx context.Context, in *notifyv1.DeleteNotificationRequest) (*emptypb.Empty, error) {
	target, err := recordTarget(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := s.inboxes.Delete(ctx, target); err != nil {
		return nil, err
	}
	rpc.SetStatus(ctx, http.StatusNoContent)
	return &emptypb.Empty{}, nil
}

// recordRequest is a request that concerns one record.
type recordRequest interface {
	GetId() string
	GetOrganizationId() string
	GetUserId() string
}

// recordTarget returns the record that a request names, with its scope.
func recordTarget(ctx context.Context, in recordRequest) (inbox.Target, error) {
	at, err := address(ctx, in.GetOrganizationId(), in.GetUserId())
	if err != nil {
		return inbox.Target{}, err
	}
	id, err := parseID(in.GetId(), inbox.ErrNotFound)
	return inbox.Target{ID: id, Organization: at.Organization, User: at.User}, err
}
