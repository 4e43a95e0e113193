package token

import (
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"
)

// vocabulary is safe for concurrent use.
type vocabulary interface {
	Count(text string) (int, error)
}

var (
	o200k  = sync.OnceValue(func() vocabulary { return codec.NewO200kBase() })
	cl100k = sync.OnceValue(func() vocabulary { return codec.NewCl100kBase() })
)

// families are the beginnings of models' names. One that ends in a point has any end, the others have none, or one that
// begins with neither a letter nor a digit. The vocabulary of gpt-oss is o200k_base with more special tokens.
var families = []struct {
	name       string
	vocabulary func() vocabulary
}{
	{"gpt-4o", o200k},
	{"gpt-4.", o200k},
	{"gpt-5", o200k},
	{"gpt-oss", o200k},
	{"chatgpt-4o", o200k},
	{"o1", o200k},
	{"o3", o200k},
	{"o4", o200k},
	{"gpt-4", cl100k},
	{"gpt-3.5", cl100k},
	{"gpt-35", cl100k}, // Azure's spelling.
	{"text-embedding-3", cl100k},
	{"text-embedding-ada-002", cl100k},
}

// longestName bounds the names that are compared, in bytes.
const longestName = 256

// vocabularyOf returns the vocabulary of a model by any of its names: a vendor's own, with a date or a size, of a
// fine-tuned model ("ft:gpt-4o:acme"), or with the vendor before it ("openai/gpt-4o", "openai.gpt-oss-120b"). It
// returns nil for an unknown one.
func vocabularyOf(model string) func() vocabulary {
	name := model[strings.LastIndexByte(model, '/')+1:]
	if len(name) > longestName {
		return nil
	}
	name = strings.TrimPrefix(strings.ToLower(name), "ft:")
	name = strings.TrimPrefix(name, "openai.")
	for _, family := range families {
		if rest, ok := strings.CutPrefix(name, family.name); ok && (rest == "" || family.name[len(family.name)-1] == '.' || !isWord(rest[0])) {
			return family.vocabulary
		}
	}
	return nil
}

func isWord(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
