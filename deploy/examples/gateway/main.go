// Command gateway asks a model a question, whole and streamed, and prints the usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"switchyard.dev/deploy/examples/client"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

func main() { client.Main(run) }

func run(ctx context.Context) error {
	conn, err := client.Connect("GATEWAY_GRPC")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	inference := gatewayv1.NewInferenceServiceClient(conn)
	question := &gatewayv1.LlmRequest{
		OptimizationGoal: "cost",
		Messages: []*gatewayv1.ChatMessage{{
			Role: "user", TypedContent: &gatewayv1.ChatMessage_Text{Text: "What does a switchyard do?"},
		}},
	}

	answer, err := inference.Chat(ctx, question)
	if err != nil {
		return fmt.Errorf("chat: %w", err)
	}
	usage := answer.GetUsage()
	fmt.Printf("%s\n%s answered for %.6f cents\n\n", answer.GetContent(), usage.GetProviderUsed(), usage.GetCostCents())

	stream, err := inference.ChatStream(ctx, question)
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			fmt.Println()
			return nil
		}
		if err != nil {
			return fmt.Errorf("stream: %w", err)
		}
		fmt.Print(chunk.GetContent())
	}
}
