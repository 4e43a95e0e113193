package bedrock

import (
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// family is what Converse takes of a vendor's models in a turn with results of calls.
type family struct {
	// name is a part of the models' names.
	name string
	// refusedInside are the kinds of content that are refused within a result, beside those that are taken in its turn.
	refusedInside provider.Attachments
	beside        kinds
}

// kinds is a set of kinds of blocks.
type kinds uint8

const (
	kindText kinds = 1 << iota
	kindImage
	kindDocument
)

// families are those about which something is known. The API reference has images within a result for Claude and Nova
// alone, and names no model for documents; the rest is from tests of others against the service, which disagree with it
// on Llama 4. Claude's refusal of documents in the turn of a result says that the result is missing. Sources: Amazon
// Bedrock API reference, ToolResultContentBlock; pydantic-ai issues 3253, 6081 and 6098, opencode issue 49443 and
// strands-agents/tools issue 213 on GitHub.
var families = []family{
	{"anthropic.claude", 0, kindText | kindImage},
	{"amazon.nova", provider.AttachedTexts | provider.AttachedDocuments, kindText | kindImage | kindDocument},
	{"meta.llama", 0, 0},
	{"mistral.", provider.AttachedImages, 0},
	{"writer.", provider.AttachedAll, 0},
}

// familyOf returns a model's family. Of others, and of models behind an ARN, no media are sent within a result, and no
// documents beside one, as every model that takes them takes them in a turn of their own.
func familyOf(model string) family {
	i := slices.IndexFunc(families, func(f family) bool { return strings.Contains(model, f.name) })
	if i < 0 {
		return family{refusedInside: provider.AttachedAll, beside: kindText | kindImage}
	}
	return families[i]
}

// kindOf returns the kind of a block; 0 for one that may stand anywhere.
func kindOf(b *block) kinds {
	switch {
	case b.Document != nil:
		return kindDocument
	case b.Image != nil:
		return kindImage
	case b.Text != "":
		return kindText
	}
	return 0
}

// joins reports whether blocks may follow a turn of the user in the same turn.
func (f *family) joins(turn, blocks []block) bool {
	if !slices.ContainsFunc(turn, func(b block) bool { return b.ToolResult != nil }) {
		return true
	}
	return !slices.ContainsFunc(blocks, func(b block) bool { return kindOf(&b)&^f.beside != 0 })
}
