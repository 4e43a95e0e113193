package bedrock

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
)

// block is a union: each has one of its fields.
type block struct {
	Text       string      `json:"text,omitempty"`
	Image      *media      `json:"image,omitempty"`
	Document   *media      `json:"document,omitempty"`
	ToolUse    *toolUse    `json:"toolUse,omitempty"`
	ToolResult *toolResult `json:"toolResult,omitempty"`
	Reasoning  *reasoning  `json:"reasoningContent,omitempty"`
	CachePoint *cachePoint `json:"cachePoint,omitempty"`
}

// media is an image or a document. Only a document has a name.
type media struct {
	Format string `json:"format"`
	Name   string `json:"name,omitempty"`
	Source source `json:"source"`
}

type source struct {
	// Bytes are base64.
	Bytes string `json:"bytes"`
}

type reasoning struct {
	Text     *reasoningText `json:"reasoningText,omitempty"`
	Redacted string         `json:"redactedContent,omitempty"`
}

type reasoningText struct {
	Text      string `json:"text"`
	Signature string `json:"signature,omitempty"`
}

type toolUse struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	ID      string  `json:"toolUseId"`
	Content []block `json:"content"`
}

// blocks returns a turn's blocks in the order in which the vendor made them: thinking, text, and each call behind the
// thinking that led to it. A point of the prompt cache within a result ends behind the result.
func (e *encoder) blocks(m provider.Message) ([]block, error) {
	if m.Role == provider.RoleTool {
		result := &toolResult{ID: toolID(m.ToolCallID), Content: []block{}}
		var point []block
		for _, part := range m.Content {
			var err error
			if result.Content, err = e.part(result.Content, part); err != nil {
				return nil, err
			}
			if part.Cache != "" {
				point = e.cachePoint(part.Cache)
			}
		}
		return append([]block{{ToolResult: result}}, point...), nil
	}
	var lead, calls []block
	for _, call := range m.ToolCalls {
		thought, err := e.thinkingOf(call)
		if err != nil {
			return nil, err
		}
		input, err := anthropic.Input(call)
		if err != nil {
			return nil, err
		}
		lead = appendThinking(lead, thought.Lead)
		calls = append(appendThinking(calls, thought.Before), block{ToolUse: &toolUse{toolID(call.ID), call.Name, input}})
	}
	blocks := lead
	for _, part := range m.Content {
		var err error
		if blocks, err = e.part(blocks, part); err != nil {
			return nil, err
		}
		blocks = append(blocks, e.cachePoint(part.Cache)...)
	}
	return append(blocks, calls...), nil
}

// thinkingOf returns the thinking that led to a call. Signatures of Claude are valid at each of its hosts, so that a
// conversation may change between them.
func (e *encoder) thinkingOf(call provider.ToolCall) (anthropic.Thinking, error) {
	if !isClaude(e.chat.Model) {
		return anthropic.Thinking{}, nil
	}
	return anthropic.ThinkingOf(call)
}

// appendThinking appends blocks of thinking, which have Anthropic's form.
func appendThinking(blocks []block, thinking []json.RawMessage) []block {
	for _, raw := range thinking {
		own := gjson.ParseBytes(raw)
		b := &reasoning{Redacted: own.Get("data").Str}
		if own.Get("type").Str == "thinking" {
			b = &reasoning{Text: &reasoningText{own.Get("thinking").Str, own.Get("signature").Str}}
		}
		blocks = append(blocks, block{Reasoning: b})
	}
	return blocks
}

// part appends a part of a turn. The dialect has no setting for an image's detail, which is only a hint.
func (e *encoder) part(blocks []block, p provider.Part) ([]block, error) {
	switch {
	case p.File != nil:
		document, err := e.document(p.File)
		return append(blocks, block{Document: document}), err
	case p.ImageURL != "":
		image, err := encodeImage(p.ImageURL)
		return append(blocks, block{Image: image}), err
	}
	return append(blocks, block{Text: p.Text}), nil
}

// imageFormats are the names of media types of images.
var imageFormats = map[string]string{
	"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp",
}

func encodeImage(url string) (*media, error) {
	kind, data, ok := (&provider.File{URL: url}).Data()
	if !ok {
		return nil, provider.Unsupported("messages[].content", "this provider accepts images as data: URIs in base64 only")
	}
	format := imageFormats[strings.ToLower(kind)]
	if format == "" {
		return nil, provider.Unsupported("messages[].content", "this provider accepts images of the types png, jpeg, gif and webp")
	}
	return &media{Format: format, Source: source{data}}, nil
}

// documentFormats are the names of media types of documents.
var documentFormats = map[string]string{
	"application/pdf": "pdf", "text/csv": "csv", "text/html": "html", "text/plain": "txt", "text/markdown": "md",
	"application/msword": "doc", "application/vnd.ms-excel": "xls",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":       "xlsx",
}

func (e *encoder) document(file *provider.File) (*media, error) {
	_, data, ok := file.Data()
	if !ok {
		return nil, provider.Unsupported("messages[].content", "this provider takes documents by their bytes, not by a URL")
	}
	format := documentFormats[file.Type()]
	if format == "" && file.IsText() {
		format = "txt"
	}
	if format == "" {
		return nil, provider.Unsupported("messages[].content", "this provider accepts as documents only texts, pdf, doc, docx, xls and xlsx")
	}
	return &media{Format: format, Name: e.documentName(file.Name), Source: source{data}}, nil
}

// nameDocuments adds a text, the name of the first document, to each turn that has documents but no text, because the
// vendor refuses such a turn. The texts in results of calls don't count. Source: Amazon Bedrock API reference, Message.
func (e *encoder) nameDocuments() {
	for i := range e.Messages {
		content := e.Messages[i].Content
		first := slices.IndexFunc(content, func(b block) bool { return b.Document != nil })
		if first >= 0 && !slices.ContainsFunc(content, func(b block) bool { return b.Text != "" }) {
			e.Messages[i].Content = slices.Insert(content, first, block{Text: content[first].Document.Name})
		}
	}
}

// maxName bounds the name of a document, in bytes, so that a number fits behind it.
const maxName = 180

// documentName returns a name of the characters that the vendor takes. The number at its end makes it another one than
// that of every other document of the request.
func (e *encoder) documentName(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool {
		return r != '-' && r != '(' && r != ')' && r != '[' && r != ']' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	name = strings.Join(words, " ")
	name = strings.TrimSpace(name[:min(len(name), maxName)])
	e.documents++
	return cmp.Or(name, "document") + " " + strconv.Itoa(e.documents)
}
