package openai

import (
	"net/url"
	"strings"
)

// traits are the differences between servers of the dialect.
type traits struct {
	// completionTokens: the limit is called max_completion_tokens (OpenAI's reasoning models refuse max_tokens);
	// compatible servers support only max_tokens.
	completionTokens bool
	// streamUsage: stream_options are accepted, and usage is then sent.
	streamUsage bool
	// obfuscates: chunks are padded unless the request switches it off.
	obfuscates bool
	// strict: unknown fields are refused, such as extra_content.
	strict bool
	// reasoning: how the server is told how much to think.
	reasoning ReasoningStyle
	// responses: the server has the Responses API.
	responses bool
	// batches: the server runs batch jobs.
	batches bool
	// encrypts: reasoning comes encrypted from the Responses API to requests that ask for it. Other servers may refuse to.
	encrypts bool
	// shortToolIDs: IDs of tool calls are nine letters or digits.
	shortToolIDs bool
}

// traitsOf returns the traits of known hosts; the configuration takes precedence.
func traitsOf(base *url.URL, config Config) traits {
	t := traits{streamUsage: true}
	host := base.Hostname()
	switch {
	case host == "api.openai.com":
		t = traits{completionTokens: true, streamUsage: true, obfuscates: true, strict: true, responses: true, batches: true, encrypts: true}
	case config.APIVersion != "", strings.HasSuffix(host, ".azure.com") && strings.HasPrefix(base.Path, "/openai/"):
		t = traits{completionTokens: true, streamUsage: true, strict: true, responses: config.APIVersion == "", encrypts: true}
	case host == "api.mistral.ai": // Usage comes in the last chunk by itself.
		t = traits{strict: true, shortToolIDs: true}
	}
	if config.StreamUsage != nil {
		t.streamUsage = *config.StreamUsage
	}
	t.reasoning = styleOf(base, config.ReasoningStyle)
	if config.Responses != nil {
		t.responses = *config.Responses
	}
	if config.Batches != nil {
		t.batches = *config.Batches
	}
	t.shortToolIDs = t.shortToolIDs || config.ShortToolIDs
	return t
}
