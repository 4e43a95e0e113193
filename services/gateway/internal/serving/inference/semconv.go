package inference

import (
	"go.opentelemetry.io/otel/attribute"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Names of OpenTelemetry's semantic conventions for generative AI (client spans and metrics, status "development",
// version 0.1.0 of open-telemetry/semantic-conventions-genai). They are kept in one place because they still change.
const (
	metricInference      = "gen_ai.client.inference.duration"
	metricEmbeddings     = "gen_ai.client.embeddings.duration"
	metricOperation      = "gen_ai.client.operation.duration"
	metricFirstChunk     = "gen_ai.client.inference.time_to_first_chunk"
	metricPerOutputChunk = "gen_ai.client.inference.time_per_output_chunk"

	metricUsageInput      = "gen_ai.client.inference.usage.input_tokens"
	metricUsageOutput     = "gen_ai.client.inference.usage.output_tokens"
	metricUsageCacheRead  = "gen_ai.client.inference.usage.cache_read.input_tokens"
	metricUsageCacheWrite = "gen_ai.client.inference.usage.cache_write.input_tokens"
	metricUsageReasoning  = "gen_ai.client.inference.usage.reasoning.output_tokens"

	metricCallInput     = "gen_ai.client.inference.operation.input_tokens"
	metricCallOutput    = "gen_ai.client.inference.operation.output_tokens"
	metricEmbeddedInput = "gen_ai.client.embeddings.operation.input_tokens"

	attrOperation     = attribute.Key("gen_ai.operation.name")
	attrProvider      = attribute.Key("gen_ai.provider.name")
	attrRequestModel  = attribute.Key("gen_ai.request.model")
	attrResponseModel = attribute.Key("gen_ai.response.model")
	attrModality      = attribute.Key("gen_ai.token.modality")
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
	attrCacheWrite      = attribute.Key("gen_ai.usage.cache_write.input_tokens")
	attrReasoningTokens = attribute.Key("gen_ai.usage.reasoning.output_tokens")

	// attrConfigured is the provider's name in the policy. The conventions' name is that of a vendor's platform, which
	// several providers may share.
	attrConfigured = attribute.Key("switchyard.provider")

	// finishError is the finish reason of an answer that ended without one.
	finishError = "error"
	// other is the label of values whose number is unbounded.
	other = "_OTHER"
)

// Deprecated names, which version 0.1.0 of the conventions has no more. Metrics are recorded under both for one release.
const (
	oldFirstChunk     = "gen_ai.client.operation.time_to_first_chunk"
	oldPerOutputChunk = "gen_ai.client.operation.time_per_output_chunk"
	oldUsage          = "gen_ai.client.token.usage"

	oldTokenType = attribute.Key("gen_ai.token.type")
)

// modality is what tokens stand for. The number of modalities is part of the size of a series.
type modality int

const (
	modalityText modality = iota
	modalityImage
	modalityAudio
	// modalityUnknown is that of tokens which may be of several kinds, and whose vendor doesn't distinguish them.
	modalityUnknown

	modalities
)

var modalityNames = [modalities]string{modalityText: "text", modalityImage: "image", modalityAudio: "audio", modalityUnknown: "unknown"}

// family is the part of the conventions that a call belongs to.
type family int

const (
	// familyInference are calls that generate something.
	familyInference family = iota
	familyEmbeddings
	// familyOther are calls that the conventions have no part for: they classify or rank.
	familyOther
)

func familyOf(operation string) family {
	switch operation {
	case operationNames[provider.OperationEmbeddings]:
		return familyEmbeddings
	case operationNames[provider.OperationModerations], operationNames[provider.OperationRerank]:
		return familyOther
	}
	return familyInference
}

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
	tokenBuckets    = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
)

// waitBuckets are those of waiting and of the deprecated metrics of chunks, in seconds.
var waitBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
