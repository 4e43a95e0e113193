package gemini

import (
	"encoding/json"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

type request struct {
	System     *content          `json:"systemInstruction,omitempty"`
	Contents   []content         `json:"contents"`
	Tools      []tools           `json:"tools,omitempty"`
	ToolConfig *toolConfig       `json:"toolConfig,omitempty"`
	Generation *generationConfig `json:"generationConfig,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

// part is one of text, inline data, a call, or a call's result.
type part struct {
	Text             string            `json:"text,omitempty"`
	InlineData       *blob             `json:"inlineData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	ThoughtSignature string            `json:"thoughtSignature,omitempty"`
}

type blob struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"`
}

type generationConfig struct {
	MaxTokens      int             `json:"maxOutputTokens,omitempty"`
	Temperature    *float64        `json:"temperature,omitempty"`
	TopP           *float64        `json:"topP,omitempty"`
	Stop           []string        `json:"stopSequences,omitempty"`
	Seed           *int64          `json:"seed,omitempty"`
	Presence       *float64        `json:"presencePenalty,omitempty"`
	Frequency      *float64        `json:"frequencyPenalty,omitempty"`
	ResponseType   string          `json:"responseMimeType,omitempty"`
	ResponseSchema json.RawMessage `json:"responseJsonSchema,omitempty"`
	Thinking       *thinkingConfig `json:"thinkingConfig,omitempty"`
	// Modalities and Image are for models that generate images.
	Modalities []string     `json:"responseModalities,omitempty"`
	Image      *imageConfig `json:"imageConfig,omitempty"`
}

// encode puts the system messages into the dialect's own field. It joins consecutive turns of the same side, because the
// dialect requires user and model to alternate. Terms.Fit must have adapted the chat.
func encode(chat *provider.Chat) (*request, error) {
	if err := check(chat); err != nil {
		return nil, err
	}
	r := &request{Contents: []content{}}
	calls := make(map[string]string) // names by ID
	for _, m := range chat.Messages {
		role, parts, err := encodeMessage(chat.Model, m, calls)
		if err != nil {
			return nil, err
		}
		r.join(role, parts)
	}
	if err := r.encodeTools(chat); err != nil {
		return nil, err
	}
	g := generationConfig{
		MaxTokens: chat.MaxTokens, Temperature: chat.Temperature, TopP: chat.TopP, Stop: chat.Stop, Seed: encodeSeed(chat.Seed),
		Thinking: encodeReasoning(chat.Model, chat.Reasoning),
	}
	if takesPenalties(chat.Model) {
		g.Presence, g.Frequency = chat.PresencePenalty, chat.FrequencyPenalty
	}
	if err := r.encodeFormat(&g, chat); err != nil {
		return nil, err
	}
	r.Generation = &g
	return r, nil
}

// encodeSeed returns a seed in the 32 bits that the vendor takes: equal seeds stay equal.
func encodeSeed(seed *int64) *int64 {
	if seed == nil {
		return nil
	}
	return new(*seed << 32 >> 32)
}

// check returns an error for settings that the dialect can't express and on which the answer depends. Hints are left
// out: that only one call may be made at a time, for one.
func check(chat *provider.Chat) error {
	return chat.WithoutNames()
}

// The sides of a conversation.
const (
	roleUser  = "user"
	roleModel = "model"
)

// join adds a turn. A turn without a role belongs to the system instruction.
func (r *request) join(role string, parts []part) {
	if role == "" {
		if r.System == nil {
			r.System = &content{}
		}
		r.System.Parts = append(r.System.Parts, parts...)
		return
	}
	if last := len(r.Contents) - 1; last >= 0 && r.Contents[last].Role == role {
		r.Contents[last].Parts = append(r.Contents[last].Parts, parts...)
		return
	}
	r.Contents = append(r.Contents, content{role, parts})
}

// encodeMessage encodes a turn, and records the names of its calls, by which their results are sent.
func encodeMessage(model string, m provider.Message, calls map[string]string) (role string, parts []part, err error) {
	if m.Role == provider.RoleTool {
		result, err := encodeResult(m, calls)
		return roleUser, []part{result}, err
	}
	if parts, err = encodeParts(m.Content); err != nil {
		return "", nil, err
	}
	switch m.Role {
	case provider.RoleSystem:
		return "", parts, nil
	case provider.RoleAssistant:
	case provider.RoleUser, provider.RoleTool:
		return roleUser, parts, nil
	}
	for i, call := range m.ToolCalls {
		calls[call.ID] = call.Name
		encoded, err := encodeCall(model, call, i == 0)
		if err != nil {
			return "", nil, err
		}
		parts = append(parts, encoded)
	}
	return roleModel, parts, nil
}

// encodeParts encodes the parts of a turn. The detail of an image is only a hint, which few models support.
func encodeParts(parts []provider.Part) ([]part, error) {
	var encoded []part
	for _, p := range parts {
		switch {
		case p.File != nil:
			document, err := encodeDocument(p.File)
			if err != nil {
				return nil, err
			}
			if p.File.Name != "" { // The dialect has no member for the name.
				encoded = append(encoded, part{Text: "Document: " + p.File.Name})
			}
			encoded = append(encoded, part{InlineData: document})
		case p.ImageURL != "":
			kind, data, ok := dataURI(p.ImageURL)
			if !ok {
				return nil, provider.Unsupported("messages[].content", "this provider accepts images as data: URIs in base64 only")
			}
			encoded = append(encoded, part{InlineData: &blob{kind, data}})
		default:
			encoded = append(encoded, part{Text: p.Text})
		}
	}
	return encoded, nil
}

// documentTypes are the media types of documents that the vendor takes. Source: Gemini API documentation, "Document
// understanding" and "File input methods".
var documentTypes = []string{
	provider.TypePDF, "text/plain", "text/html", "text/css", "text/csv", "text/markdown", "text/md", "text/xml", "text/rtf",
	"text/javascript", "text/x-python",
}

// encodeDocument returns the data of a document. Texts of types that the vendor doesn't list are sent as text/plain.
func encodeDocument(file *provider.File) (*blob, error) {
	_, data, ok := file.Data()
	switch kind := file.Type(); {
	case !ok:
		return nil, provider.Unsupported("messages[].content", "this provider takes documents by their bytes, not by a URL")
	case slices.Contains(documentTypes, kind):
		return &blob{kind, data}, nil
	case file.IsText():
		return &blob{"text/plain", data}, nil
	}
	return nil, provider.Unsupported("messages[].content", "this provider takes only PDFs and texts as documents")
}

// dataURI splits a data: URI (RFC 2397) in base64.
func dataURI(uri string) (kind, data string, ok bool) {
	rest, isData := strings.CutPrefix(uri, "data:")
	kind, data, isBase64 := strings.Cut(rest, ";base64,")
	return kind, data, isData && isBase64
}
