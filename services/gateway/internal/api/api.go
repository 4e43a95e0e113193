// Package api serves the gateway's contract on gRPC and JSON. Completions have their own handlers on the JSON face,
// since transcoding can't stream and decodes twice; both faces turn the same message into the same request, by the same
// rules. internal/app registers it.
package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"google.golang.org/grpc"

	countsv1 "switchyard.dev/gen/go/switchyard/counts/v1"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/custody/exposure"
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/rpc"
)

// Engine serves completions.
type Engine interface {
	Chat(ctx context.Context, r *inference.Request) (*inference.Completion, error)
	StreamChat(ctx context.Context, r *inference.Request) (*inference.Stream, error)
	Relay(ctx context.Context, r *inference.Request) (*inference.Stream, error)
	CountTokens(ctx context.Context, r *inference.Request) (tokens int64, counted bool, err error)
	// PlanBatch plans a batch job.
	PlanBatch(ctx context.Context, limit inference.BatchLimit, requests iter.Seq2[*inference.Request, error]) (*inference.BatchPlan, error)
	// Check returns the error with which a request would be refused now.
	Check(ctx context.Context, r *inference.Request) error
	Embed(ctx context.Context, r *inference.Request) (*inference.Embedded, error)
	MakeImages(ctx context.Context, r *inference.Request) (*inference.ImageResult, error)
	// Models returns the models that requests may name.
	Models() []provider.Target
}

// pingEvery is how often a stream without content sends a ping: proxies cut connections that are silent for a minute.
const pingEvery = 15 * time.Second

// Dependencies are what the services are built on. All but Conversations, Background, Files, BatchJobs, Sockets and
// ToolFace are required.
type Dependencies struct {
	Engine   Engine
	Policies Policies
	Usage    ledger.Feed
	// Counts are the calls that customers are billed for.
	Counts  CallCounts
	Spend   spend.Store
	Answers Purger
	Byok    CredentialManager
	// Traces reads what was recorded of requests.
	Traces Archive
	Prober Prober

	Approvals Approvals
	// Expressions checks those of standing approvals.
	Expressions *approval.Expressions
	Trust       trust.Store
	// Tools are the tool servers; without Tools.Listings none can be listed.
	Tools    Tools
	Exposure exposure.Store
	Audit    AuditLog
	// Canonical returns a provider's name for an alias; false if the policy doesn't have it.
	Canonical func(provider string) (string, bool)

	Organizations Organizations
	Runs          Runs
	// MostDepth returns how many runs may be above another.
	MostDepth func() int
	// Calls counts the calls in flight on this replica.
	Calls CallCounter

	Catalog    Catalog
	Steering   Steering
	Status     Status
	Reconciler Reconciler
	// Conversations keeps the responses that callers may refer to; nil keeps none.
	Conversations Conversations
	// Background makes responses in the background; the zero value makes none.
	Background Background
	// Files and BatchJobs keep the files and batches of callers; nil keeps none.
	Files     Files
	BatchJobs BatchJobs
	// Sockets is the WebSocket mode of the Responses API; the zero value turns it off.
	Sockets Sockets
	// ToolFace is the face of the Model Context Protocol; the zero value has none.
	ToolFace ToolFace
	// Prices returns the price table in force.
	Prices func() *price.Table
}

// Register registers the contract's services on both faces of server.
func Register(ctx context.Context, server *rpc.Server, deps Dependencies) error {
	inferences := &inferenceServer{engine: deps.Engine, decode: server.Decode, encode: server.Encode, files: deps.Files}
	register(server, inferences, deps)
	mountSockets(server, mountResponses(server, inferences, deps.Conversations, deps.Background), deps.Sockets)
	inferences.mountGemini(server)
	mountFiles(server, deps.Files)
	mountBatches(server, inferences, deps.Files, deps.BatchJobs)
	inferences.mountCompatible(server) // First: the contract's own paths take precedence over its patterns.
	if err := transcode(ctx, server); err != nil {
		return fmt.Errorf("register services: %w", err)
	}
	mountSpend(server, deps.Spend)
	if err := mountTools(server, deps.ToolFace); err != nil {
		return fmt.Errorf("tools: %w", err)
	}
	server.Handle("POST", "/v1/llm/chat", gatewayv1.InferenceService_Chat_FullMethodName, inferences.serveChat)
	server.Handle("POST", "/v1/embeddings", gatewayv1.InferenceService_Embed_FullMethodName, inferences.embeddingsOf)
	server.Handle("POST", "/v1/vision", gatewayv1.InferenceService_DescribeImage_FullMethodName, inferences.serveVision)
	server.Handle("POST", "/v1/images/generations", gatewayv1.InferenceService_GenerateImages_FullMethodName, inferences.serveImages)
	return nil
}

// register registers every service of the contract. unimplemented_test.go checks that no method is left out.
func register(r grpc.ServiceRegistrar, inferences *inferenceServer, deps Dependencies) {
	gatewayv1.RegisterInferenceServiceServer(r, inferences)
	gatewayv1.RegisterApprovalServiceServer(r, newApprovalServer(deps))
	gatewayv1.RegisterByokServiceServer(r, &byokServer{manager: deps.Byok})
	gatewayv1.RegisterModelServiceServer(r, &modelServer{catalog: deps.Catalog})
	gatewayv1.RegisterOrganizationServiceServer(r, &organizationServer{answers: deps.Answers, organizations: deps.Organizations})
	gatewayv1.RegisterPricingServiceServer(r, &pricingServer{
		prices: deps.Prices, canonical: deps.Canonical, policies: deps.Policies, reconciler: deps.Reconciler,
	})
	gatewayv1.RegisterProbeServiceServer(r, &probeServer{prober: deps.Prober, canonical: deps.Canonical})
	gatewayv1.RegisterProviderServiceServer(r, &providerServer{status: deps.Status})
	gatewayv1.RegisterRoutingServiceServer(r, &routingServer{policies: deps.Policies, steering: deps.Steering, catalog: deps.Catalog})
	runs := &runServer{runs: deps.Runs, calls: deps.Calls, mostDepth: deps.MostDepth}
	gatewayv1.RegisterRunServiceServer(r, runs)
	gatewayv1.RegisterSessionServiceServer(r, runs)
	gatewayv1.RegisterSecurityServiceServer(r, &securityServer{exposure: deps.Exposure, audit: deps.Audit, canonical: deps.Canonical})
	gatewayv1.RegisterToolServerServiceServer(r, &toolServer{Tools: deps.Tools})
	gatewayv1.RegisterTraceServiceServer(r, &traceServer{archive: deps.Traces, inferences: inferences})
	gatewayv1.RegisterTrustServiceServer(r, &trustServer{records: deps.Trust})
	countsv1.RegisterCallCountServiceServer(r, &callCountServer{counts: deps.Counts})
	gatewayv1.RegisterUsageServiceServer(r, &usageServer{feed: deps.Usage, spend: deps.Spend})
}

// transcode registers the JSON form of every method with a path.
func transcode(ctx context.Context, server *rpc.Server) error {
	mux, local := server.Mux(), server.Local()
	return errors.Join(
		gatewayv1.RegisterInferenceServiceHandlerClient(ctx, mux, gatewayv1.NewInferenceServiceClient(local)),
		gatewayv1.RegisterApprovalServiceHandlerClient(ctx, mux, gatewayv1.NewApprovalServiceClient(local)),
		gatewayv1.RegisterByokServiceHandlerClient(ctx, mux, gatewayv1.NewByokServiceClient(local)),
		gatewayv1.RegisterModelServiceHandlerClient(ctx, mux, gatewayv1.NewModelServiceClient(local)),
		gatewayv1.RegisterOrganizationServiceHandlerClient(ctx, mux, gatewayv1.NewOrganizationServiceClient(local)),
		gatewayv1.RegisterPricingServiceHandlerClient(ctx, mux, gatewayv1.NewPricingServiceClient(local)),
		gatewayv1.RegisterProbeServiceHandlerClient(ctx, mux, gatewayv1.NewProbeServiceClient(local)),
		gatewayv1.RegisterProviderServiceHandlerClient(ctx, mux, gatewayv1.NewProviderServiceClient(local)),
		gatewayv1.RegisterRoutingServiceHandlerClient(ctx, mux, gatewayv1.NewRoutingServiceClient(local)),
		gatewayv1.RegisterRunServiceHandlerClient(ctx, mux, gatewayv1.NewRunServiceClient(local)),
		gatewayv1.RegisterSessionServiceHandlerClient(ctx, mux, gatewayv1.NewSessionServiceClient(local)),
		gatewayv1.RegisterSecurityServiceHandlerClient(ctx, mux, gatewayv1.NewSecurityServiceClient(local)),
		gatewayv1.RegisterToolServerServiceHandlerClient(ctx, mux, gatewayv1.NewToolServerServiceClient(local)),
		gatewayv1.RegisterTraceServiceHandlerClient(ctx, mux, gatewayv1.NewTraceServiceClient(local)),
		gatewayv1.RegisterTrustServiceHandlerClient(ctx, mux, gatewayv1.NewTrustServiceClient(local)),
		countsv1.RegisterCallCountServiceHandlerClient(ctx, mux, countsv1.NewCallCountServiceClient(local)),
		gatewayv1.RegisterUsageServiceHandlerClient(ctx, mux, gatewayv1.NewUsageServiceClient(local)),
	)
}
