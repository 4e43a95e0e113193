package toolcall

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/schema"
)

// schemas keeps the compiled schemas of arguments, by the digests of their definitions. One organization's checks use
// at most its share of the processors.
type schemas struct {
	cache *schema.Cache
	turns *fairshare.Processors
}

func newSchemas() schemas { return schemas{schema.NewCache(), fairshare.NewProcessors()} }

// errNoSchema is the error of a definition whose schema of arguments can't be used.
var errNoSchema = denied(definition.ReasonUnreviewed, "inputSchema: can't be checked against; the server has to change it, and the definition to be reviewed again")

// maxRule is the length of what is said of a schema that can't be used, in characters.
const maxRule = 400

// check returns what breaks the schema of a tool's arguments; nothing if they are as it wants them.
func (s schemas) check(ctx context.Context, organization string, tool *definition.Reviewed, arguments []byte) (violations []schema.Violation, err error) {
	busy := s.turns.Do(ctx, organization, func() {
		var compiled *schema.Schema
		if compiled, err = s.of(tool); err == nil && compiled != nil {
			violations = compiled.Check(arguments)
		}
	})
	return violations, cmp.Or(busy, err)
}

// of returns the compiled schema of a tool; nil for a tool without one.
func (s schemas) of(tool *definition.Reviewed) (*schema.Schema, error) {
	if kept := s.cache.Get(tool.Digest); kept != nil {
		return kept, nil
	}
	var text struct {
		InputSchema jsontext.Value `json:"inputSchema"`
	}
	if err := jsonv2.Unmarshal(tool.Text, &text); err != nil { // Names are compared exactly.
		return nil, errNoSchema.Wrap(err)
	}
	if len(text.InputSchema) == 0 {
		return nil, nil
	}
	compiled, err := schema.CompileDeclared(text.InputSchema)
	if err != nil { // It names the place and the rule.
		e := errNoSchema.Wrap(err)
		e.Text = "inputSchema: " + definition.Visible(err.Error(), maxRule) + "; the server has to change it, and the definition to be reviewed again"
		return nil, e
	}
	s.cache.Add(tool.Digest, compiled)
	return compiled, nil
}

// violated returns the result for arguments that break their schema: the model that wrote them can correct them.
func violated(violations []schema.Violation) upstream.Result {
	lines := make([]string, 0, len(violations)+1)
	lines = append(lines, "The arguments do not follow the tool's inputSchema; the tool was not called.")
	for _, v := range violations {
		lines = append(lines, v.String())
	}
	text, err := json.Marshal(errorResult{Content: []textContent{{"text", strings.Join(lines, "\n")}}, IsError: true})
	if err != nil {
		text = json.RawMessage(`{"content":[],"isError":true}`) // Texts can't fail.
	}
	return upstream.Result{Kind: upstream.KindComplete, Text: text, IsError: true}
}

// errorResult is a result by which a tool says that it failed.
type errorResult struct {
	Content []textContent `json:"content"`
	IsError bool          `json:"isError"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}
