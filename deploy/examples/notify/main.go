// Command notify follows a user's feed, sends the user a message, and marks it
// read when it arrives.
package main

import (
	"context"
	"fmt"

	"switchyard.dev/deploy/examples/client"
	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
)

func main() { client.Main(run) }

const user = "user_example"

func run(ctx context.Context) error {
	conn, err := client.Connect("NOTIFY_GRPC")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	inbox := notifyv1.NewInboxServiceClient(conn)

	feed, err := inbox.StreamNotifications(ctx, &notifyv1.StreamNotificationsRequest{UserId: user})
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	if _, err := feed.Recv(); err != nil { // Ready: from here on, the feed has every change.
		return fmt.Errorf("feed: %w", err)
	}
	accepted, err := notifyv1.NewNotifyServiceClient(conn).Notify(ctx, &notifyv1.NotifyRequest{
		Channels: []string{"in_app"}, Subject: "Train 7", Message: "arrives on track 3",
		Target: &notifyv1.NotifyTarget{UserId: user},
	})
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	for {
		event, err := feed.Recv()
		if err != nil {
			return fmt.Errorf("feed: %w", err)
		}
		record := event.GetNotification()
		if record.GetId() == "" || record.GetSubject() != "Train 7" || record.GetRead() {
			continue
		}
		fmt.Printf("%s: %s (%d unread), sent as %s\n", record.GetSubject(), record.GetMessage(), event.GetUnreadCount(), accepted.GetNotificationId())
		read, err := inbox.MarkRead(ctx, &notifyv1.MarkReadRequest{Id: record.GetId(), UserId: user})
		if err != nil {
			return fmt.Errorf("mark read: %w", err)
		}
		fmt.Printf("%d unread now\n", read.GetUnreadCount())
		return nil
	}
}
