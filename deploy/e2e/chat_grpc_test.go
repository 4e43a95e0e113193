//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/deploy/dev/stack"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

// llm returns a chat request of one turn.
func llm(t *testing.T, model, text string) *gatewayv1.LlmRequest {
	t.Helper()
	content, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return &gatewayv1.LlmRequest{Model: model, Messages: []*gatewayv1.ChatMessage{{Role: "user", Content: content}}}
}

// readChunks reads a gRPC stream to its end.
func readChunks(t *testing.T, h *harness, ctx context.Context, request *gatewayv1.LlmRequest) (transcript, error) { //nolint:revive // the testing.T goes first
	t.Helper()
	var all transcript
	stream, err := gatewayv1.NewInferenceServiceClient(h.grpc(t, stack.Gateway)).ChatStream(ctx, request)
	if err != nil {
		return all, err
	}
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			all.done = true
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if all.Usage != nil {
			t.Errorf("%v after the usage", piece)
		}
		next := chunk{Content: piece.GetContent(), FinishReason: piece.GetFinishReason()}
		if u := piece.GetUsage(); u != nil {
			next.Usage = usageOf(u)
		}
		all.append(next)
	}
}

func usageOf(u *gatewayv1.Usage) *usage {
	return &usage{
		PromptTokens: int(u.GetPromptTokens()), CompletionTokens: int(u.GetCompletionTokens()),
		ProviderUsed: u.GetProviderUsed(), CostCents: u.GetCostCents(), Estimated: u.GetEstimated(),
		RequestedProvider: u.GetRequestedProvider(), RequestedGoal: u.GetRequestedGoal(),
		Substituted: u.GetSubstituted(), CacheHit: u.GetCacheHit(),
	}
}

// Both faces give the same answers to the same requests.
func TestChatOverGRPC(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	client := gatewayv1.NewInferenceServiceClient(h.grpc(t, stack.Gateway))
	for _, model := range []string{"sandbox", dialects[0].model, dialects[1].model} {
		t.Run(model, func(t *testing.T) {
			var want completion
			h.service(stack.Gateway, organization).post(t, chatPath, ask(model, "hello")).into(t, http.StatusOK, &want)

			whole, err := client.Chat(h.as(t, organization), llm(t, model, "hello"))
			if err != nil {
				t.Fatal(err)
			}
			got := completion{Content: whole.GetContent(), FinishReason: whole.GetFinishReason(), Usage: usageOf(whole.GetUsage())}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Chat (-JSON +gRPC):\n%s", diff)
			}

			all, err := readChunks(t, h, h.as(t, organization), llm(t, model, "hello"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, all.completion); diff != "" || all.deltas < 2 {
				t.Errorf("ChatStream in %d pieces (-JSON +gRPC):\n%s", all.deltas, diff)
			}
		})
	}
}

var (
	overGRPC      = both("over-grpc")
	grpcFaithful  = addPair("grpc-faithful")
	grpcMidstream = addPair("grpc-midstream")
)

func TestChatOverGRPCFailsOver(t *testing.T) {
	t.Parallel()
	h := use(t)
	for stream, models := range overGRPC {
		h.script(t, stack.FakeProvider, rule{Match: models.first.match(), Times: 1, Action: object{"status": 503}})
		request := llm(t, models.first.named(), "hello")
		request.Provider = models.first.name
		var used *usage
		if stream {
			all, err := readChunks(t, h, h.as(t, unique("org")), request)
			if err != nil {
				t.Fatal(err)
			}
			used = all.Usage
		} else {
			whole, err := gatewayv1.NewInferenceServiceClient(h.grpc(t, stack.Gateway)).Chat(h.as(t, unique("org")), request)
			if err != nil {
				t.Fatal(err)
			}
			used = usageOf(whole.GetUsage())
		}
		if used.ProviderUsed != models.second.name || !used.Substituted || used.RequestedProvider != models.first.name {
			t.Errorf("streamed %v: usage %+v", stream, used)
		}
	}
}

func TestChatOverGRPCRefuses(t *testing.T) {
	t.Parallel()
	h := use(t)
	client := gatewayv1.NewInferenceServiceClient(h.grpc(t, stack.Gateway))
	h.script(t, stack.FakeProvider,
		rule{Match: grpcFaithful.first.match(), Action: object{"status": 503}},
		rule{Match: grpcMidstream.first.match(), Action: object{"error_after_chunks": 3, "status": 500}})
	faithful := llm(t, grpcFaithful.first.named(), "hello")
	faithful.Provider, faithful.AllowSubstitution = grpcFaithful.first.name, new(false)
	elsewhere := llm(t, "sandbox", "hello")
	elsewhere.OrganizationId = "org_other"
	goal := llm(t, "sandbox", "hello")
	goal.OptimizationGoal = "beauty"

	tests := map[string]struct {
		request *gatewayv1.LlmRequest
		code    codes.Code
		reason  string
	}{
		"an unknown model":       {llm(t, "no-such-model", "x"), codes.NotFound, "model_not_found"},
		"an unknown goal":        {goal, codes.InvalidArgument, "invalid_request"},
		"no messages":            {&gatewayv1.LlmRequest{Model: "sandbox"}, codes.InvalidArgument, "invalid_request"},
		"another organization's": {elsewhere, codes.PermissionDenied, "organization_mismatch"},
		"without its key":        {llm(t, keyless.model, "x"), codes.Unavailable, "missing_keys"},
		"without substitution":   {faithful, codes.Unavailable, "provider_failed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := h.as(t, unique("org"))
			_, err := client.Chat(ctx, tt.request)
			refusedBy(t, err, tt.code, tt.reason)
			_, err = readChunks(t, h, ctx, tt.request)
			refusedBy(t, err, tt.code, tt.reason)
		})
	}
	t.Run("an error after content", func(t *testing.T) {
		all, err := readChunks(t, h, h.as(t, unique("org")), llm(t, grpcMidstream.first.named(), "hello"))
		if all.Content != "You said:" {
			t.Errorf("got %q before the error", all.Content)
		}
		refusedBy(t, err, codes.Unavailable, "stream_interrupted")
	})
	t.Run("a stream from the method for whole answers", func(t *testing.T) {
		request := llm(t, "sandbox", "hello")
		request.Stream = true
		_, err := client.Chat(h.as(t, unique("org")), request)
		refusedBy(t, err, codes.InvalidArgument, "invalid_request")
	})
}

func TestChatOverGRPCClientLeaves(t *testing.T) {
	t.Parallel()
	h := use(t)
	text := unique("leave")
	call := hangingServer.expect(text)
	ctx, leave := context.WithCancel(h.as(t, unique("org")))
	defer leave()
	stream, err := gatewayv1.NewInferenceServiceClient(h.grpc(t, stack.Gateway)).ChatStream(ctx, llm(t, hangingProvider.model, text))
	if err != nil {
		t.Fatal(err)
	}
	if piece, err := stream.Recv(); err != nil || piece.GetContent() != "Wait" {
		t.Fatalf("first piece %v, %v", piece, err)
	}
	leave()
	if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("after leaving: %v", err)
	}
	call.ends(t)
}
