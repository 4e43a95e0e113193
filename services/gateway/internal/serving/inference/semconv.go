package inference

import (
	"go.opentelemetry.io/otel/attribute"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Names of OpenTelemetry's semantic conventions for generative AI (client spans and metrics, status "development",
// version 1.42.0-dev of open-telemetry/semantic-conventions-genai). They are kept in one place because they still change.
const (
	metricDuration       = "gen_ai.client.operation.duration"
	metricTokens         = "gen_ai.client.token.usage" //nolint:gosec // tokens of text
	metricFirstChunk     = "gen_ai.client.operation.time_to_first_chunk"
	metricPerOutputChunk = "gen_ai.client.operation.time_per_output_chunk"

	attrOperation     = attribute.Key("gen_ai.operation.name")
	attrProvider      = attribute.Key("gen_ai.provider.name")
	attrRequestModel  = attribute.Key("gen_ai.request.model")
	attrResponseModel = attribute.Key("gen_ai.response.model")
	attrTokenType     = attribute.Key("gen_ai.token.type")
	attrErrorType     = attribute.Key("error.type")

	attrStream           = attribute.Key("gen_ai.request.stream")
	attrMaxTokens        = attribute.Key("gen_ai.request.max_tokens")
	attrTemperature      = attribute.Key("gen_ai.request.temperature")
	attrTopP             = attribute.Key("gen_ai.request.top_p")
	attrSeed             = attribute.Key("gen_ai.request.seed")
	attrPresencePenalty  = attribute.Key("gen_ai.request.presence_penalty")
	attrFrequencyPenalty = attribute.Key("gen_ai.request.frequency_penalty")

	attrFinishReasons   = attribute.Key("gen_ai.response.finish_reasons")
	attrTimeToFirst     = attribute.Key("gen_ai.response.time_to_first_chunk")
	attrInputTokens     = attribute.Key("gen_ai.usage.input_tokens")
	attrOutputTokens    = attribute.Key("gen_ai.usage.output_tokens")
	attrCacheRead       = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	attrCacheCreation   = attribute.Key("gen_ai.usage.cache_creation.input_tokens")
	attrReasoningTokens = attribute.Key("gen_ai.usage.reasoning.output_tokens")

	// attrConfigured is the provider's name in the policy. The conventions' name is that of a vendor's platform, which
	// several providers may share.
	attrConfigured = attribute.Key("switchyard.provider")

	tokenInput  = "input"
	tokenOutput = "output"
	// other is the label of values whose number is unbounded.
	other = "_OTHER"
)

// operationNames are the convention's names; a question about an image is a chat.
var operationNames = map[provider.Operation]string{
	provider.OperationChat:       "chat",
	provider.OperationVision:     "chat",
	provider.OperationEmbeddings: "embeddings",
	provider.OperationImages:     "generate_content",

	provider.OperationCompletions:    "text_completion",
	provider.OperationModerations:    "moderations",
	provider.OperationSpeech:         "speech",
	provider.OperationTranscriptions: "transcriptions",
	provider.OperationRerank:         "rerank",
}

// Buckets that the conventions recommend, in seconds and in tokens.
var (
	durationBuckets = []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	chunkBuckets    = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
	tokenBuckets    = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
)
