package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/load/client"
	"switchyard.dev/deploy/load/drive"
	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
)

// streamItems is how many deliveries a producer sends in one call, which is the service's commit size.
const streamItems = 200

// streams offers deliveries over gRPC, as internal producers do: parallel calls at a time, each of streamItems. The
// latency of a delivery is that of its call. The rate is in deliveries a second; 0 is as fast as the service accepts
// them.
func (r *webhookRig) streams(parallel int, rate float64, d time.Duration) func(context.Context) (*drive.Result, error) {
	return func(ctx context.Context) (*drive.Result, error) {
		conn, err := grpc.NewClient(r.stack.GRPC(string(stack.WebhookEgress)), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		ctx = metadata.AppendToOutgoingContext(ctx,
			"authorization", "Bearer "+r.stack.Secrets().Service, "x-organization-id", stack.Organization)
		producer, result, started := webhooksv1.NewDeliveryServiceClient(conn), drive.NewResult(), time.Now()
		var mu sync.Mutex
		var group errgroup.Group
		for number := range parallel {
			group.Go(func() error {
				for call := number; time.Since(started) < d && ctx.Err() == nil; call += parallel {
					if rate > 0 {
						time.Sleep(time.Until(started.Add(time.Duration(float64(call*streamItems) / rate * float64(time.Second)))))
					}
					began := time.Now()
					if err := produce(ctx, producer, r.receiver.url+"/hook"); err != nil {
						return err
					}
					mu.Lock()
					result.Took(time.Since(began), streamItems)
					r.accepted.Add(streamItems)
					mu.Unlock()
				}
				return nil
			})
		}
		err = group.Wait()
		result.Elapsed = time.Since(started)
		return result, err
	}
}

// produce makes one call.
func produce(ctx context.Context, producer webhooksv1.DeliveryServiceClient, url string) error {
	stream, err := producer.EnqueueStream(ctx)
	if err != nil {
		return err
	}
	for range streamItems {
		text := strings.Replace(payload, client.Stamp, strconv.FormatInt(time.Now().UnixNano(), 10), 1)
		if stream.Send(&webhooksv1.EnqueueRequest{Url: url, EventType: "train.arrived", Payload: []byte(text)}) != nil {
			break // the answer has the reason
		}
	}
	summary, err := stream.CloseAndRecv()
	if err == nil && summary.GetAccepted() != streamItems {
		err = fmt.Errorf("%d of %d were accepted", summary.GetAccepted(), streamItems)
	}
	return err
}
