package gemini

import (
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// CanRelay implements provider.Relaying. Models before Gemini 3 take no form of the answer with functions, and no model
// takes documents of other types than the vendor lists.
func (p *Provider) CanRelay(chat *provider.Chat) bool {
	if len(chat.Tools) > 0 && !joinsFormats(chat.Model) && isJSON(gjson.GetBytes(chat.ResponseFormat, "type").Str) {
		return false
	}
	return !slices.ContainsFunc(chat.Messages, func(m provider.Message) bool {
		return slices.ContainsFunc(m.Content, func(c provider.Part) bool {
			if c.File == nil {
				return false
			}
			_, _, inline := c.File.Data()
			return inline && !slices.Contains(documentTypes, c.File.Type())
		})
	})
}

func isJSON(format string) bool { return format == "json_object" || format == "json_schema" }
