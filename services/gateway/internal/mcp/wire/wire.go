// Package wire reads and writes the messages of the Model Context Protocol as both ends of the gateway need them:
// strictly, with bounds, and without changing what it doesn't know. Package upstream speaks to servers with it, package
// api/mcp to callers.
package wire

import "slices"

// Versions of the protocol. From Modern on there are no sessions: each request says what it needs.
const (
	Modern         = "2026-07-28"
	Legacy20251125 = "2025-11-25"
	Legacy20250618 = "2025-06-18"
	Legacy20250326 = "2025-03-26"
)

// legacy are the older versions that the gateway speaks, the newest first.
var legacy = []string{Legacy20251125, Legacy20250618, Legacy20250326}

// IsLegacy reports whether the gateway speaks a version that begins with a handshake.
func IsLegacy(version string) bool { return slices.Contains(legacy, version) }

// Methods.
const (
	MethodDiscover    = "server/discover"
	MethodInitialize  = "initialize"
	MethodPing        = "ping"
	MethodListTools   = "tools/list"
	MethodCallTool    = "tools/call"
	MethodListen      = "subscriptions/listen"
	MethodInitialized = "notifications/initialized"
	MethodCancelled   = "notifications/cancelled"
	MethodProgress    = "notifications/progress"
	MethodListening   = "notifications/subscriptions/acknowledged"

	MethodListResources = "resources/list"
	MethodListTemplates = "resources/templates/list"
	MethodReadResource  = "resources/read"
	MethodSubscribe     = "resources/subscribe"
	MethodUnsubscribe   = "resources/unsubscribe"
	MethodListPrompts   = "prompts/list"
	MethodGetPrompt     = "prompts/get"
	MethodComplete      = "completion/complete"
	MethodSetLevel      = "logging/setLevel"

	MethodGetTask    = "tasks/get"
	MethodUpdateTask = "tasks/update"
	MethodCancelTask = "tasks/cancel"

	// What servers ask of clients.
	MethodElicit = "elicitation/create"
	MethodSample = "sampling/createMessage"
	MethodRoots  = "roots/list"

	MethodToolsChange     = "notifications/tools/list_changed"
	MethodResourcesChange = "notifications/resources/list_changed"
	MethodPromptsChange   = "notifications/prompts/list_changed"
	MethodUpdated         = "notifications/resources/updated"
	MethodMessage         = "notifications/message"
	MethodTask            = "notifications/tasks"
)

// Members of _meta.
const (
	MetaPrefix       = "io.modelcontextprotocol/"
	MetaVersion      = MetaPrefix + "protocolVersion"
	MetaClientInfo   = MetaPrefix + "clientInfo"
	MetaCapabilities = MetaPrefix + "clientCapabilities"
	MetaServerInfo   = MetaPrefix + "serverInfo"
	MetaLogLevel     = MetaPrefix + "logLevel"
	MetaSubscription = MetaPrefix + "subscriptionId"
	MetaProgress     = "progressToken"
	MetaTraceParent  = "traceparent"
	MetaTraceState   = "tracestate"
	MetaBaggage      = "baggage"
	MetaRelatedTask  = MetaPrefix + "related-task"
)

// levels are the levels of log messages (RFC 5424), the least severe first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// Level returns how severe a level of log messages is; -1 for none.
func Level(name string) int { return slices.Index(levels, name) }

// Severities returns how many levels are at least as severe as one; 0 for none.
func Severities(name string) int64 {
	if level := Level(name); level >= 0 {
		return int64(len(levels) - level)
	}
	return 0
}

// LevelName returns the level of a number; empty for none.
func LevelName(level int) string {
	if level < 0 || level >= len(levels) {
		return ""
	}
	return levels[level]
}

// ExtensionTasks is the capability of results that come later.
const ExtensionTasks = MetaPrefix + "tasks"

// Headers of streamable HTTP.
const (
	HeaderVersion     = "Mcp-Protocol-Version"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	HeaderParamPrefix = "Mcp-Param-"
	HeaderSession     = "Mcp-Session-Id"
	HeaderLastEvent   = "Last-Event-Id"
)

// Codes of errors: those of JSON-RPC, and those that only a server of Modern sends.
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

// IsModernCode reports whether only a server that speaks Modern answers with an error of this code.
func IsModernCode(code int64) bool {
	return code == CodeHeaderMismatch || code == CodeMissingCapability || code == CodeUnsupportedVersion
}

// Kinds of results, the values of resultType.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task"
)
