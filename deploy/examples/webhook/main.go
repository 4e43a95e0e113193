// Command webhook sends a hundred webhooks over one stream, as an internal producer would, and follows the first
// until it has ended.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"switchyard.dev/deploy/examples/client"
	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
)

func main() { client.Main(run) }

func run(ctx context.Context) error {
	if err := client.Require("RECEIVER_URL"); err != nil {
		return err
	}
	conn, err := client.Connect("WEBHOOK_EGRESS_GRPC")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	deliveries := webhooksv1.NewDeliveryServiceClient(conn)

	stream, err := deliveries.EnqueueStream(ctx)
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	batch := time.Now().UnixNano()
	for i := range 100 {
		err := stream.Send(&webhooksv1.EnqueueRequest{
			Url: os.Getenv("RECEIVER_URL") + "/hooks/examples", EventType: "train.arrived", Payload: fmt.Appendf(nil, `{"track":%d}`, i),
			// Sent again after a broken connection, it is still one delivery.
			IdempotencyKey: fmt.Sprintf("train-%d-%d", batch, i),
		})
		if err != nil {
			break // CloseAndRecv has the reason
		}
	}
	summary, err := stream.CloseAndRecv()
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	fmt.Printf("%d accepted\n", summary.GetAccepted())

	for {
		record, err := deliveries.GetDelivery(ctx, &webhooksv1.GetDeliveryRequest{Id: summary.GetDeliveryIds()[0]})
		if err != nil {
			return fmt.Errorf("delivery: %w", err)
		}
		switch record.GetStatus() {
		case "queued", "delivering", "retrying":
		default:
			fmt.Printf("%s after %d attempt(s), status %d\n", record.GetStatus(), record.GetAttempts(), record.GetLastResponseCode().GetValue())
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("still %s: %w", record.GetStatus(), ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
