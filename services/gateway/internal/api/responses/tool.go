package responses

import (
	"encoding/json"
	"slices"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// The kinds of tools that the caller runs. All other types are the vendor's own.
const (
	toolFunction  = "function"
	toolCustom    = "custom"
	toolNamespace = "namespace"
	toolSearch    = "tool_search"
)

// hosted are the types of tools that the vendor runs. They are an offer to the model: a provider that lacks them may
// serve without, and the answer says so. Other unknown types change what the caller has to do, so that no other dialect
// can carry them.
var hosted = []string{
	"web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11", "file_search", "code_interpreter",
	"image_generation", "mcp", "programmatic_tool_calling", "computer", "computer_use_preview", toolSearch,
}

// tool is a tool of a request.
type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
	Format      json.RawMessage `json:"format"`
	Tools       json.RawMessage `json:"tools"`
	Execution   string          `json:"execution"`
}

// callable is a tool that the caller runs, as calls of it are written.
type callable struct {
	kind            string
	name, namespace string
}

// toolbox holds the caller's tools by the name of the function that stands for each at other vendors.
type toolbox struct{ functions map[string]callable }

// functionName returns the name of the function that stands for a tool: the tool's name or, within a namespace,
// namespace__name.
func functionName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "__" + name
}

// find returns what a function stands for; a name that the request does not have is a function of that name.
func (b *toolbox) find(function string) callable {
	if c, ok := b.functions[function]; ok {
		return c
	}
	return callable{kind: toolFunction, name: function}
}

func (b *toolbox) add(path, function string, c callable) error {
	if _, twice := b.functions[function]; twice {
		return apierr.Invalid(path+".name", "appears twice")
	}
	if b.functions == nil {
		b.functions = make(map[string]callable)
	}
	b.functions[function] = c
	return nil
}

// readTools reads a list of tools; those of a namespace are within it.
func (r *reader) readTools(path, namespace string, raw json.RawMessage) error {
	list, err := dialect.Elements(path, raw)
	if err != nil {
		return err
	}
	for i, one := range list {
		if err := r.readTool(dialect.At(path, i), namespace, one); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) readTool(path, namespace string, raw json.RawMessage) error {
	var t tool
	err := dialect.Unambiguous(path, raw, "type", "name", "parameters", "tools")
	if err == nil {
		err = dialect.Decode(path, raw, &t)
	}
	switch {
	case err != nil:
		return err
	case t.Type == toolNamespace && namespace == "":
		if t.Name == "" {
			return apierr.Invalid(path+".name", "is required")
		}
		return r.readTools(path+".tools", t.Name, t.Tools)
	case t.Type == toolNamespace:
		return apierr.Invalid(path+".type", "a namespace can't hold a namespace")
	case t.Type == toolFunction, t.Type == toolCustom:
		return r.declare(path, namespace, t)
	case t.Type == toolSearch && t.Execution == "client":
		t.Name = toolSearch
		return r.declare(path, namespace, t)
	case slices.Contains(hosted, t.Type):
		r.chat.Offer(path+".type", t.Type)
		return nil
	}
	r.chat.Open(path + ".type") // local_shell, shell, apply_patch, and types of the future
	return nil
}

// declare adds the function that stands for a tool.
func (r *reader) declare(path, namespace string, t tool) error {
	if t.Name == "" {
		return apierr.Invalid(path+".name", "is required")
	}
	function := functionName(namespace, t.Name)
	if err := r.exchange.tools.add(path, function, callable{t.Type, t.Name, namespace}); err != nil {
		return err
	}
	declared := provider.Tool{Name: function, Description: t.Description, Parameters: t.Parameters, Strict: t.Strict != nil && *t.Strict}
	if string(declared.Parameters) == "null" {
		declared.Parameters = nil
	}
	if t.Type == toolCustom {
		if err := custom(path, &declared, t.Format); err != nil {
			return err
		}
	}
	r.chat.Chat.Tools = append(r.chat.Chat.Tools, declared)
	return nil
}

// customParameters is the schema of the function that stands for a custom tool, whose input is any text.
const customParameters = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`

// custom makes a function of a custom tool. Its grammar, which no function has, becomes a part of the description.
func custom(path string, declared *provider.Tool, format json.RawMessage) error {
	declared.Parameters, declared.Strict = json.RawMessage(customParameters), false
	if len(format) == 0 || string(format) == "null" {
		return nil
	}
	var f struct {
		Type       string `json:"type"`
		Syntax     string `json:"syntax"`
		Definition string `json:"definition"`
	}
	if err := dialect.Decode(path+".format", format, &f); err != nil {
		return err
	}
	if f.Definition != "" {
		declared.Description += "\n\nThe input must match this " + f.Syntax + " grammar:\n" + f.Definition
	}
	return nil
}

// customInput returns the text in the arguments of a function that stands for a custom tool; arguments of another form
// are the text themselves.
func customInput(arguments string) string {
	var input struct {
		Input *string `json:"input"`
	}
	if json.Unmarshal([]byte(arguments), &input) == nil && input.Input != nil {
		return *input.Input
	}
	return arguments
}

// customArguments is the reverse.
func customArguments(input string) string {
	return string(append(jsontext.AppendText([]byte(`{"input":`), input), '}'))
}

// modes are the choices that are no particular tool.
var modes = []string{"auto", "none", "required"}

func (r *reader) toolChoice(raw json.RawMessage) error {
	const path = "tool_choice"
	if raw == nil {
		return nil
	}
	if raw[0] == '"' {
		var mode string
		if err := dialect.Decode(path, raw, &mode); err != nil {
			return err
		}
		if !slices.Contains(modes, mode) {
			return apierr.Invalid(path, "must be auto, none, required or a tool")
		}
		r.choose(provider.ToolChoice{Mode: mode})
		return nil
	}
	var choice struct {
		Type      string          `json:"type"`
		Name      string          `json:"name"`
		Namespace string          `json:"namespace"`
		Mode      string          `json:"mode"`
		Tools     json.RawMessage `json:"tools"`
	}
	if err := dialect.Decode(path, raw, &choice); err != nil {
		return err
	}
	switch choice.Type {
	case toolFunction, toolCustom:
		function := functionName(choice.Namespace, choice.Name)
		if _, known := r.exchange.tools.functions[function]; !known {
			return apierr.Invalid(path+".name", "must be one of tools")
		}
		r.choose(provider.ToolChoice{Mode: "tool", Name: function})
		return nil
	case "allowed_tools":
		return r.allow(path, choice.Mode, choice.Tools)
	}
	if slices.Contains(hosted, choice.Type) {
		r.chat.Demand(path+".type", choice.Type)
	} else {
		r.chat.Open(path + ".type")
	}
	return nil
}

func (r *reader) choose(choice provider.ToolChoice) {
	if len(r.chat.Chat.Tools) > 0 {
		r.chat.Chat.ToolChoice = &choice
	}
}

// allow leaves only some tools to the model. Vendors without such a choice don't get the others.
func (r *reader) allow(path, mode string, raw json.RawMessage) error {
	if mode != "auto" && mode != "required" {
		return apierr.Invalid(path+".mode", "must be auto or required")
	}
	list, err := dialect.Elements(path+".tools", raw)
	if err != nil {
		return err
	}
	allowed := make(map[string]bool, len(list))
	for i, one := range list {
		var t tool
		if err := dialect.Decode(dialect.At(path+".tools", i), one, &t); err != nil {
			return err
		}
		allowed[t.Name] = true
	}
	r.chat.Chat.Tools = slices.DeleteFunc(r.chat.Chat.Tools, func(t provider.Tool) bool {
		return !allowed[r.exchange.tools.find(t.Name).name]
	})
	r.choose(provider.ToolChoice{Mode: mode})
	return nil
}
