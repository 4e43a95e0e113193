package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"switchyard.dev/services/platform/testkit/growth"
)

const (
	chatBody       = `{"model":"sandbox/sandbox","messages":[{"role":"user","content":"hello"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"stop":["a"]}`
	geminiBody     = `{"contents":[{"role":"user","parts":[{"text":"hello"}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}],"generationConfig":{"maxOutputTokens":64,"stopSequences":["a"]}}`
	batchBody      = `{"input_file_id":"file-a","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"a":"b"}}`
	compatibleBody = `{"model":"sandbox/sandbox","max_tokens":64,"messages":[{"role":"user","content":"hello"}]}`
	openAIBody     = `{"model":"sandbox/sandbox","messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"stop":["a"],"metadata":{"a":"b"}}`
	anthropicBody  = `{"model":"sandbox/sandbox","max_tokens":64,"system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"stop_sequences":["a"]}`
	responseBody   = `{"model":"sandbox/sandbox","instructions":"a","input":[{"role":"user","content":[{"type":"input_text","text":"hello"}]}],"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"metadata":{"a":"b"}}`
)

// bodies are requests that each route accepts.
var bodies = map[string]string{
	"POST /v1/llm/chat":                                     chatBody,
	"POST /v1/chat/completions":                             openAIBody,
	"POST /v1/files":                                        `{}`, // Forms have a test of their own.
	"POST /openai/files":                                    `{}`,
	"POST /v1/batches":                                      batchBody,
	"POST /openai/batches":                                  batchBody,
	"POST /openai/deployments/{model}/batches":              batchBody,
	"POST /v1/batches/{batch_id}/cancel":                    `{}`,
	"POST /openai/batches/{batch_id}/cancel":                `{}`,
	"POST /v1/messages/batches":                             `{"requests":[{"custom_id":"a","params":` + compatibleBody + `}]}`,
	"POST /v1/messages/batches/{batch_id}/cancel":           `{}`,
	"POST /v1/messages":                                     anthropicBody,
	"POST /v1/responses":                                    responseBody,
	"POST /v1/responses/compact":                            `{"model":"sandbox/sandbox","input":[{"role":"user","content":"hello"}]}`,
	"POST /v1/responses/input_tokens":                       `{"model":"sandbox/sandbox","input":[{"role":"user","content":"hello"}]}`,
	"POST /v1/responses/{response_id}/cancel":               `{}`,
	"POST /v1/messages/count_tokens":                        `{"model":"openai/gpt-4o","messages":[{"role":"user","content":"hello"}]}`,
	"POST /openai/responses":                                responseBody,
	"POST /openai/responses/compact":                        `{"model":"sandbox/sandbox","input":[{"role":"user","content":"hello"}]}`,
	"POST /openai/responses/input_tokens":                   `{"model":"sandbox/sandbox","input":[{"role":"user","content":"hello"}]}`,
	"POST /openai/responses/{response_id}/cancel":           `{}`,
	"POST /openai/deployments/{model}/chat/completions":     openAIBody,
	"POST /openai/deployments/{model}/embeddings":           `{"input":["one","two"]}`,
	"POST /openai/deployments/{model}/images/generations":   `{"prompt":"a switchyard at night"}`,
	"POST /openai/deployments/{model}/completions":          `{"prompt":"hello"}`,
	"POST /openai/deployments/{model}/moderations":          `{"input":"hello"}`,
	"POST /openai/deployments/{model}/audio/speech":         `{"input":"hello","voice":"alloy"}`,
	"POST /openai/deployments/{model}/audio/transcriptions": `{}`,
	"POST /openai/deployments/{model}/audio/translations":   `{}`,
	"POST /openai/deployments/{model}/images/edits":         `{"prompt":"a hat"}`,
	"POST /openai/deployments/{model}/images/variations":    `{}`,
	"POST /v1/completions":                                  `{"model":"sandbox/sandbox","prompt":"hello"}`,
	"POST /v1/moderations":                                  `{"model":"sandbox/sandbox","input":"hello"}`,
	"POST /v1/audio/speech":                                 `{"model":"sandbox/sandbox","input":"hello","voice":"alloy"}`,
	"POST /v1/audio/transcriptions":                         `{}`, // Forms have a test of their own.
	"POST /v1/audio/translations":                           `{}`,
	"POST /v1/images/edits":                                 `{"model":"sandbox/sandbox","prompt":"a hat"}`,
	"POST /v1/images/variations":                            `{}`,
	"POST /mcp":                                             `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f","arguments":{"a":"b"}}}`,
	"POST /mcp/{server}":                                    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f","arguments":{"a":"b"}}}`,
	"POST /v1/rerank":                                       `{"model":"sandbox/sandbox","query":"a","documents":["a","b"]}`,
	"POST /v2/rerank":                                       `{"model":"sandbox/sandbox","query":"a","documents":["a","b"]}`,
	"POST /v1/embeddings":                                   `{"model":"sandbox/sandbox","input":["one","two"]}`,
	"POST /v1/vision":                                       `{"model":"sandbox/sandbox","prompt":"What is this?","image":{"mime_type":"image/png","base64":"iVBORw0KGgo="}}`,
	"POST /v1/images/generations":                           `{"model":"sandbox/sandbox","prompt":"a switchyard at night"}`,
	"POST /v1/byok/config":                                  `{"provider":"first","secret_ref":"file:acme/first.key","owner_principal":"ada","rotation_interval_days":90}`,
	"POST /v1/byok/config/{provider}/rotate":                `{"secret_ref":"file:acme/second.key"}`,
	"POST /v1/byok/config/{provider}/transfer":              `{"owner_principal":"bob"}`,
	"POST /v1/byok/purge":                                   `{"organization_id":"acme"}`,
	"POST /v1/prompt-cache/purge":                           `{"organization_id":"acme"}`,
	"POST /v1/runs/mint":                                    `{"max_calls":10,"max_cost_cents":50,"ttl_seconds":600,"allowed_tools":["files/*"],"max_tool_calls":5}`,
	"POST /v1/runs/{run_id}/revoke":                         `{"reason":"a loop that ran away"}`,
	"POST /v1/sessions/{run_id}/abort":                      `{"reason":"a loop that ran away"}`,
	"POST /v1/admin/sessions/{run_id}/abort":                `{"organization_id":"acme"}`,
	"PUT /v1/admin/orgs/{org_id}/budget":                    `{"budget_ceiling_cents":10000,"period":"day"}`,
	"POST /v1/admin/orgs/{org_id}/suspend":                  `{"reason":"unpaid"}`,
	"POST /v1/admin/orgs/{org_id}/unsuspend":                `{}`,
	"POST /v1/approvals":                                    `{"tool":"refund","arguments":{"cents":500},"requested_by":"agent"}`,
	"POST /v1/approvals/{ref}/approve":                      `{"decided_by":"ada"}`,
	"POST /v1/approvals/{ref}/tokens":                       `{"approver":"ada","channel":"email"}`,
	"POST /v1/approvals/standing":                           `{"approval_ref":"apr_1","created_by":"ada","when":"args.n < 5","uses":5,"ttl_seconds":600}`,
	"POST /v1/decisions/{token}":                            `{"decision":"deny","reason":"too much"}`,
	"POST /v1/approvals/{ref}/deny":                         `{"decided_by":"ada","reason":"too much"}`,
	"POST /v1/mcp/servers":                                  `{"server_id":"s","url":"https://s.example/mcp","registered_by":"ada"}`,
	"PATCH /v1/mcp/servers/{server_id}":                     `{"prefix":"t","updated_by":"ada"}`,
	"POST /v1/mcp/servers/{server_id}/refresh":              `{}`,
	"POST /v1/mcp/servers/{server_id}/review":               `{"listing_digest":"0000000000000000000000000000000000000000000000000000000000000000","decision":"approve","reviewed_by":"bob"}`,
	"POST /v1/mcp/servers/{server_id}/tools/{tool}/review":  `{"digest":"0000000000000000000000000000000000000000000000000000000000000000","decision":"approve","reviewed_by":"bob"}`,
	"POST /v1/mcp/trust":                                    `{"server_id":"s","level":"VERIFIED","assigned_by":"ada"}`,
	"POST /v1/mcp/trust/{org_id}/{server_id}/review":        `{"reviewed_by":"bob"}`,
	"POST /v1/admin/pin":                                    `{"provider":"sandbox","reason":"an incident elsewhere"}`,
	"POST /v1/admin/unpin":                                  `{}`,
	"POST /v1/admin/canary":                                 `{"provider":"sandbox","model":"sandbox","percentage":5}`,
	"POST /v1/admin/canary-stop":                            `{}`,
	"POST /v1/admin/reload-policy":                          `{}`,
	"POST /v1/models/registry/{model_id}/deprecate":         `{"successor":"sandbox","reason":"one is enough"}`,
	"POST /v1/pricing/reconcile":                            `{"period_start":"2026-01-01T00:00:00Z","period_end":"2026-02-01T00:00:00Z","lines":[{"provider":"first","amount_cents":0}]}`,
	"POST /v1/canary/consistency":                           `{"model":"sandbox/sandbox","prompt":"hello","count":3}`,
	"POST /v1/replay/{request_id}":                          `{}`,
	"POST /v1beta/models/{model=**}:generateContent":        geminiBody,
	"POST /v1beta/models/{model=**}:streamGenerateContent":  geminiBody,
	"POST /v1beta/models/{model=**}:countTokens":            geminiBody,
	"POST /v1beta/models/{model=**}:embedContent":           `{"content":{"parts":[{"text":"one"}]}}`,
	"POST /v1beta/models/{model=**}:batchEmbedContents":     `{"requests":[{"content":{"parts":[{"text":"one"}]}}]}`,
	"POST /v1/models/{model=**}:generateContent":            geminiBody,
	"POST /v1/models/{model=**}:streamGenerateContent":      geminiBody,
	"POST /v1/models/{model=**}:countTokens":                geminiBody,
	"POST /v1/models/{model=**}:embedContent":               `{"content":{"parts":[{"text":"one"}]}}`,
	"POST /v1/models/{model=**}:batchEmbedContents":         `{"requests":[{"content":{"parts":[{"text":"one"}]}}]}`,
}

// formats begins the routes whose bodies are those of SDKs and of the Model Context Protocol, and not of the contract.
var formats = []string{
	"/openai/", "/v1/audio/", "/v1/batches", "/v1/chat/", "/v1/completions", "/v1/embeddings", "/v1/files", "/v1/images/edits",
	"/v1/images/variations", "/v1/messages", "/v1/moderations", "/v1/rerank", "/v1/responses", "/v1beta/", "/v2/rerank", "/mcp",
}

func TestRoutesGrowsLinearly(t *testing.T) {
	b := setup(t)
	face := growth.Face{
		Handler: b.server.Handler(), Header: http.Header{"Authorization": {"Bearer ops"}, "X-Organization-Id": {"acme"}},
		Methods: b.server.Served(), Bodies: bodies,
	}
	for route := range bodies {
		_, path, _ := strings.Cut(route, " ")
		if slices.ContainsFunc(formats, func(begin string) bool { return strings.HasPrefix(path, begin) }) {
			face.Formats = append(face.Formats, route)
		}
	}
	face.Linear(t)
}

func TestCallsGrowsLinearly(t *testing.T) {
	b := setup(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer ops", "x-organization-id", "acme")
	growth.Calls{
		Conn: b.conn, Methods: growth.MethodsOf(b.server.Served()),
	}.Linear(ctx, t, 1<<20, 64<<20)
}
