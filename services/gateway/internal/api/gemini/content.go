package gemini

import (
	"encoding/json"
	"regexp"
	"strings"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/platform/apierr"
)

var (
	contentNames = known("role", "parts")
	partNames    = known("text", "thought", "thoughtSignature", "inlineData", "fileData", "functionCall", "functionResponse",
		"executableCode", "codeExecutionResult", "toolCall", "toolResponse", "videoMetadata", "mediaResolution", "partMetadata")
)

// system reads the system instruction. Its role has no meaning.
func (r *reader) system() error {
	raw := r.raw("systemInstruction")
	if raw == nil {
		return nil
	}
	parts, err := r.parts("systemInstruction", raw)
	if err != nil {
		return err
	}
	m := provider.Message{Role: provider.RoleSystem}
	for i, p := range parts {
		if p.isText() {
			m.Content = append(m.Content, p.content)
		} else {
			r.chat.Restrict(dialect.At("systemInstruction.parts", i))
		}
	}
	if len(m.Content) > 0 {
		r.chat.Chat.Messages = append(r.chat.Chat.Messages, m)
		r.turn.system = 1
	}
	return nil
}

func (r *reader) contents() error {
	list, err := r.list("contents")
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return apierr.Invalid("contents", "must hold a content")
	}
	for i, one := range list {
		if err := r.content(dialect.At("contents", i), one); err != nil {
			return err
		}
	}
	return nil
}

// content reads a turn. In all other dialects results of functions are turns of their own; they come before what the
// user says in the same turn.
func (r *reader) content(path string, raw json.RawMessage) error {
	o, err := newObject(path, raw, contentNames)
	if err != nil {
		return err
	}
	role := "user"
	if err := o.take("role", &role); err != nil {
		return err
	}
	parts, err := r.partsOf(o)
	if err != nil {
		return err
	}
	turn := provider.Message{Role: provider.RoleUser}
	switch role {
	case "", "user", "function":
	case roleModel:
		turn.Role = provider.RoleAssistant
	default:
		return apierr.Invalid(o.at("role"), "must be user or model")
	}
	for i, p := range parts {
		if err := r.add(dialect.At(o.at("parts"), i), &turn, p); err != nil {
			return err
		}
	}
	if turn.Reasoning != "" {
		r.chat.Thought("thought", turn.ToolCalls)
	}
	if len(turn.Content) > 0 || len(turn.ToolCalls) > 0 { // A content with only thoughts is not a turn.
		r.chat.Chat.Messages = append(r.chat.Chat.Messages, turn)
	}
	return nil
}

// add adds a part to a turn; the result of a function becomes a turn of its own.
func (r *reader) add(path string, turn *provider.Message, p part) error {
	isModel := turn.Role == provider.RoleAssistant
	switch {
	case p.call != nil && !isModel:
		return apierr.Invalid(path+".functionCall", "is for turns of the model")
	case p.call != nil:
		call, err := r.turn.call(path+".functionCall", p)
		if err != nil {
			return err
		}
		call.Index = len(turn.ToolCalls)
		turn.ToolCalls = append(turn.ToolCalls, call)
	case p.result != nil && isModel:
		return apierr.Invalid(path+".functionResponse", "is for turns of the user")
	case p.result != nil:
		m, images, err := r.result(path+".functionResponse", p.result)
		if err != nil {
			return err
		}
		r.chat.Chat.Messages = append(r.chat.Chat.Messages, m)
		turn.Content = append(turn.Content, images...)
	case !p.shared:
		turn.Reasoning += p.thought
	case isModel && !p.isText(): // An image that the model made.
		r.chat.Restrict(path)
	default:
		turn.Content = append(turn.Content, p.content)
	}
	return nil
}

// part is a part of a turn: content that every dialect has, a call, a result, or nothing that others need.
type part struct {
	content provider.Part
	// shared reports whether content is set.
	shared       bool
	call, result json.RawMessage
	signature    string
	// thought is the text of a thought from an earlier answer of this gateway.
	thought string
}

func (p part) isText() bool { return p.shared && p.content.ImageURL == "" && p.content.File == nil }

// parts reads the parts of a content.
func (r *reader) parts(path string, raw json.RawMessage) ([]part, error) {
	o, err := newObject(path, raw, contentNames)
	if err != nil {
		return nil, err
	}
	return r.partsOf(o)
}

func (r *reader) partsOf(o *object) ([]part, error) {
	list, err := o.list("parts")
	if err != nil {
		return nil, err
	}
	parts := make([]part, len(list))
	for i, one := range list {
		if parts[i], err = r.part(dialect.At(o.at("parts"), i), one); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// done are parts that tell what the vendor's own tools did; what the model made of it is in its text.
var done = []string{"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}

func (r *reader) part(path string, raw json.RawMessage) (p part, err error) {
	o, err := newObject(path, raw, partNames)
	if err != nil {
		return p, err
	}
	var text *string
	var thought bool
	if err := o.takeAll(field{"text", &text}, field{"thought", &thought}, field{"thoughtSignature", &p.signature}); err != nil {
		return p, err
	}
	state, own := vendor.State(p.signature)
	switch {
	case own && thought && text != nil:
		p.thought = *text
	case own:
		r.chat.State("thoughtSignature", state, "google")
	case p.signature != "": // Other vendors get no signature.
		r.chat.Ignores("thoughtSignature")
	case thought:
		r.chat.Ignores("thought")
	}
	p.call, p.result = o.raw("functionCall"), o.raw("functionResponse")
	inline, file := o.raw("inlineData"), o.raw("fileData")
	switch {
	case thought, p.call != nil, p.result != nil:
	case inline != nil:
		p.content, p.shared, err = r.inline(o.at("inlineData"), inline)
	case file != nil:
		p.content, p.shared, err = r.file(o.at("fileData"), file)
	case text != nil:
		p.content, p.shared = provider.Part{Text: *text}, true
	}
	for _, name := range done {
		if o.raw(name) != nil {
			r.chat.Ignores(name)
		}
	}
	for _, name := range o.Rest() { // videoMetadata, mediaResolution, …
		r.chat.Ignores(name)
	}
	return p, err
}

var blobNames = known("mimeType", "data", "displayName", "fileUri")

// mediaType matches a media type without parameters.
var mediaType = regexp.MustCompile(`^[a-z]+/[A-Za-z0-9][A-Za-z0-9.+_-]{0,100}$`)

// inline reads an image or a document; sound and video are this dialect's only.
func (r *reader) inline(path string, raw json.RawMessage) (p provider.Part, ok bool, err error) {
	o, err := newObject(path, raw, blobNames)
	if err != nil {
		return p, false, err
	}
	var kind, data, name string
	if err := o.takeAll(field{"mimeType", &kind}, field{"data", &data}, field{"displayName", &name}); err != nil {
		return p, false, err
	}
	lower := strings.ToLower(kind)
	if isSound(lower) {
		r.chat.Restrict(o.at("mimeType"))
		return p, false, nil
	}
	if !mediaType.MatchString(lower) {
		return p, false, apierr.Invalid(o.at("mimeType"), "must be a media type")
	}
	uri := "data:" + kind + ";base64," + standard(data)
	if strings.HasPrefix(lower, "image/") {
		return provider.Part{ImageURL: uri, Field: o.at("data")}, true, nil
	}
	return provider.Part{File: &provider.File{Name: name, URL: uri}, Field: o.at("data")}, true, nil
}

func isSound(kind string) bool {
	return strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "video/")
}

var standardAlphabet = strings.NewReplacer("-", "+", "_", "/")

// standard returns base64 in the standard alphabet: this API takes that for URLs, too.
func standard(data string) string {
	if !strings.ContainsAny(data, "-_") {
		return data
	}
	data = standardAlphabet.Replace(data)
	if rest := len(data) % 4; rest > 1 && !strings.HasSuffix(data, "=") {
		data += "=="[:4-rest]
	}
	return data
}

// vendorHost holds the vendor's own files, which only the account that uploaded them can read.
const vendorHost = "https://generativelanguage.googleapis.com/"

// file reads an image or a document by its URL; what only the vendor can reach is this dialect's only.
func (r *reader) file(path string, raw json.RawMessage) (p provider.Part, ok bool, err error) {
	o, err := newObject(path, raw, blobNames)
	if err != nil {
		return p, false, err
	}
	var kind, uri, name string
	if err := o.takeAll(field{"mimeType", &kind}, field{"fileUri", &uri}, field{"displayName", &name}); err != nil {
		return p, false, err
	}
	switch {
	case uri == "":
		return p, false, apierr.Invalid(o.at("fileUri"), "is required")
	case isSound(kind) || !strings.HasPrefix(uri, "https://") || strings.HasPrefix(uri, vendorHost) || kind == "":
		r.chat.Open(o.at("fileUri"))
		return p, false, nil
	case strings.HasPrefix(kind, "image/"):
		r.chat.Bounds.OpenInput = true
		return provider.Part{ImageURL: uri, Field: o.at("fileUri")}, true, nil
	}
	r.chat.Bounds.OpenInput = true
	return provider.Part{File: &provider.File{Name: name, URL: uri}, Field: o.at("fileUri")}, true, nil
}
