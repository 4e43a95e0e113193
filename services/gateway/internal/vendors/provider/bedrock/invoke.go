package bedrock

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// messagesVersion is the version of Anthropic's API that the vendor has.
const messagesVersion = "bedrock-2023-05-31"

// invocation returns the caller's body as the vendor takes it: the model is in the path, how it is answered too, and the
// beta features of Anthropic's header are in the body. The rest stays byte for byte.
func invocation(chat *provider.Chat) (json.RawMessage, error) {
	members := []wire.Member{{Name: "model"}, {Name: "stream"}, {Name: "anthropic_version", Value: strconv.Quote(messagesVersion)}}
	if betas := betasOf(chat.Native); betas != "" {
		members = append(members, wire.Member{Name: "anthropic_beta", Value: betas})
	}
	body, err := anthropic.Relay(chat, members...)
	if err != nil {
		return nil, err
	}
	return body, checkOwn(body)
}

// unserved lists the members of a body that only Anthropic's API serves, and serverTools the type prefixes of the tools
// that only it runs.
var (
	unserved    = []string{"mcp_servers", "container", "fallbacks", "inference_geo"}
	serverTools = []string{"web_search_", "web_fetch_", "code_execution_", "mcp_toolset"}
)

// checkOwn returns an error for a body that only another host of Claude can serve, so that the next host is tried. The
// vendor's own refusal would end the call.
func checkOwn(body json.RawMessage) (err error) {
	wire.ParseView(body).ForEach(func(name, value gjson.Result) bool {
		switch {
		case slices.Contains(unserved, name.Str) && value.Type != gjson.Null, name.Str == "speed" && value.Str == "fast":
			err = provider.Unsupported(name.Str, "this host of the model does not support it")
		case name.Str == "tools" && has(value, isServerTool):
			err = provider.Unsupported("tools[].type", "this host of the model runs no tools itself")
		case name.Str == "messages" && has(value, func(message gjson.Result) bool { return has(message.Get("content"), isElsewhere) }):
			err = provider.Unsupported("messages[].content", "this host of the model fetches no URLs and stores no files")
		}
		return err == nil
	})
	return err
}

// has reports whether a list has an item of a kind. Any other value is an empty list.
func has(list gjson.Result, is func(item gjson.Result) bool) (found bool) {
	if list.IsArray() {
		list.ForEach(func(_, item gjson.Result) bool {
			found = is(item)
			return !found
		})
	}
	return found
}

func isServerTool(tool gjson.Result) bool {
	kind := tool.Get("type").Str
	return slices.ContainsFunc(serverTools, func(prefix string) bool { return strings.HasPrefix(kind, prefix) })
}

// isElsewhere reports whether a block refers to data outside the request.
func isElsewhere(block gjson.Result) bool {
	kind := block.Get("source.type").Str
	return kind == "file" || kind == "url"
}

// betasOf returns the beta features of a body and its headers, as JSON; empty where no header names any.
func betasOf(native *provider.Native) string {
	var named []string
	for name, value := range native.Headers {
		if http.CanonicalHeaderKey(name) == "Anthropic-Beta" {
			for beta := range strings.SplitSeq(value, ",") {
				if beta = strings.TrimSpace(beta); beta != "" {
					named = append(named, beta)
				}
			}
		}
	}
	if len(named) == 0 {
		return ""
	}
	gjson.GetBytes(native.Body, "anthropic_beta").ForEach(func(_, beta gjson.Result) bool {
		named = append(named, beta.String())
		return true
	})
	slices.Sort(named)
	list, _ := json.Marshal(slices.Compact(named)) // Texts never fail.
	return string(list)
}

// CountTokens implements provider.TokenCounter for the caller's own body.
func (p *Provider) CountTokens(ctx context.Context, credential provider.Credential, chat *provider.Chat) (int64, error) {
	if !native(chat) {
		return 0, provider.Unsupported("messages", "are not in the model's own form")
	}
	body, err := invocation(chat)
	if err != nil {
		return 0, err
	}
	var request countRequest
	request.Input.Invocation.Body = withMaxTokens(body)
	response, err := p.post(ctx, p.caller.With(credential), chat.Model, countTokens, request) //nolint:bodyclose // read closes it.
	if err != nil {
		return 0, err
	}
	root, err := read(ctx, response)
	if err != nil {
		return 0, err
	}
	tokens, ok := wire.Tokens(root.Get("inputTokens"))
	if !ok {
		return 0, wire.Malformed("the answer holds no count", nil)
	}
	return tokens, nil
}

// countRequest asks for the count of a body of InvokeModel. Source: Amazon Bedrock API reference, "CountTokens".
type countRequest struct {
	Input struct {
		Invocation struct {
			Body []byte `json:"body"` // base64 in JSON
		} `json:"invokeModel"`
	} `json:"input"`
}

// withMaxTokens returns a body with the bound that an answer needs and a count does not.
func withMaxTokens(body json.RawMessage) []byte {
	root := wire.ParseView(body)
	if root.Get("max_tokens").Exists() {
		return body
	}
	budget, _ := wire.Tokens(root.Get("thinking.budget_tokens"))
	return wire.Override(body, wire.Member{Name: "max_tokens", Value: strconv.FormatInt(budget+defaultMaxTokens, 10)})
}
