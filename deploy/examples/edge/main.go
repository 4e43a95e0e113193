// Command edge uses a customer's key with a provider's own SDK: only the base
// URL and the key differ.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"switchyard.dev/deploy/examples/client"
)

func main() { client.Main(run) }

func run(ctx context.Context) error {
	if err := client.Require("EDGE_URL", "AI_KEY"); err != nil {
		return err
	}
	sdk := openai.NewClient(
		option.WithBaseURL(os.Getenv("EDGE_URL")+"/product/v1/ai/openai/v1"),
		option.WithAPIKey(os.Getenv("AI_KEY")),
	)
	answer, err := sdk.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model:    "default",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What does a switchyard do?")},
	})
	if refused, ok := errors.AsType[*openai.Error](err); ok { // Its own text leaves out the message.
		return fmt.Errorf("chat: %d %s: %s", refused.StatusCode, refused.Code, refused.Message)
	}
	if err != nil {
		return fmt.Errorf("chat: %w", err)
	}
	fmt.Printf("%s\n%d tokens\n", answer.Choices[0].Message.Content, answer.Usage.TotalTokens)
	return nil
}
