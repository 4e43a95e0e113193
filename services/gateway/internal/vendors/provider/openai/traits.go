package openai

import (
	"net/url"
	"strings"
)

// traits are what servers of the dialect differ in.
type traits struct {
	// completionTokens: the limit is called max_completion_tokens (OpenAI's
	// reasoning models refuse max_tokens); compatible servers know only the latter.
	completionTokens bool
	// streamUsage: stream_options are taken, and with them usage is sent.
	streamUsage bool
	// obfuscates: chunks are padded unless asked not to be.
	obfuscates bool
	// strict: unknown fields are refused, such as extra_content.
	strict bool
	// shortToolIDs: ids of tool calls are nine letters or digits.
	shortToolIDs bool
}

// traitsOf knows the vendors by their hosts; configuration goes first.
func traitsOf(base *url.URL, config Config) traits {
	t := traits{streamUsage: true}
	host := base.Hostname()
	switch {
	case host == "api.openai.com":
		t = traits{completionTokens: true, streamUsage: true, obfuscates: true, strict: true}
	case config.APIVersion != "", strings.HasSuffix(host, ".azure.com") && strings.HasPrefix(base.Path, "/openai/"):
		t = traits{completionTokens: true, streamUsage: true, strict: true}
	case host == "api.mistral.ai": // Usage comes in the last chunk by itself.
		t = traits{strict: true, shortToolIDs: true}
	}
	if config.StreamUsage != nil {
		t.streamUsage = *config.StreamUsage
	}
	t.shortToolIDs = t.shortToolIDs || config.ShortToolIDs
	return t
}
