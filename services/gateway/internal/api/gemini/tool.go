package gemini

import (
	"encoding/json"
	"slices"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// hosted are the tools that the vendor runs. They are an offer to the model: a provider that lacks them may serve
// without, and the answer says so.
var hosted = []string{
	"googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext", "googleMaps", "enterpriseWebSearch", "fileSearch", "computerUse",
	"retrieval", "mcpServers", "parallelAiSearch", "exaAiSearch",
}

var (
	toolNames        = known(append([]string{"functionDeclarations"}, hosted...)...)
	declarationNames = known("name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior")
	toolConfigNames  = known("functionCallingConfig", "retrievalConfig", "includeServerSideToolInvocations")
	callingNames     = known("mode", "allowedFunctionNames", "streamFunctionCallArguments")
)

func (r *reader) tools() error {
	list, err := r.list("tools")
	if err != nil {
		return err
	}
	declared := make(map[string]bool)
	for i, one := range list {
		if err := r.tool(dialect.At("tools", i), one, declared); err != nil {
			return err
		}
	}
	return r.toolConfig(declared)
}

// tool reads an element of the list, which may hold functions and tools of the vendor's own.
func (r *reader) tool(path string, raw json.RawMessage, declared map[string]bool) error {
	o, err := newObject(path, raw, toolNames)
	if err != nil {
		return err
	}
	functions, err := o.list("functionDeclarations")
	if err != nil {
		return err
	}
	for i, one := range functions {
		if err := r.declare(dialect.At(o.at("functionDeclarations"), i), one, declared); err != nil {
			return err
		}
	}
	for _, name := range hosted {
		if o.raw(name) != nil {
			r.chat.Offer(o.at(name), name)
		}
	}
	for _, name := range o.Rest() { // Tools of the future may change what the caller has to do.
		r.chat.Open(o.at(name))
	}
	return nil
}

func (r *reader) declare(path string, raw json.RawMessage, declared map[string]bool) error {
	o, err := newObject(path, raw, declarationNames)
	if err != nil {
		return err
	}
	var tool provider.Tool
	if err := o.takeAll(field{"name", &tool.Name}, field{"description", &tool.Description}); err != nil {
		return err
	}
	switch {
	case tool.Name == "":
		return apierr.Invalid(o.at("name"), "is required")
	case declared[tool.Name]:
		return apierr.Invalid(o.at("name"), "appears twice")
	}
	declared[tool.Name] = true
	tool.Parameters = o.raw("parametersJsonSchema")
	if own := o.raw("parameters"); own != nil {
		if tool.Parameters != nil {
			return apierr.Invalid(o.at("parameters"), "excludes parametersJsonSchema")
		}
		if tool.Parameters, err = jsonSchema(o.at("parameters"), own); err != nil {
			return err
		}
	}
	if tool.Parameters != nil && tool.Parameters[0] != '{' {
		return apierr.Invalid(o.at("parametersJsonSchema"), "must be an object")
	}
	for _, name := range o.Rest() { // response, behavior, …
		r.chat.Ignores("functionDeclarations." + name)
	}
	r.chat.Chat.Tools = append(r.chat.Chat.Tools, tool)
	return nil
}

// modes are the modes of calling by their names here. VALIDATED is AUTO whose calls the vendor checks.
var modes = map[string]string{"": "", "MODE_UNSPECIFIED": "", "AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}

func (r *reader) toolConfig(declared map[string]bool) error {
	raw := r.raw("toolConfig")
	if raw == nil {
		return nil
	}
	o, err := newObject("toolConfig", raw, toolConfigNames)
	if err != nil {
		return err
	}
	if raw := o.raw("functionCallingConfig"); raw != nil {
		if err := r.calling(o.at("functionCallingConfig"), raw, declared); err != nil {
			return err
		}
	}
	for _, name := range o.Rest() { // retrievalConfig, …
		r.chat.Ignores("toolConfig." + screen.Path(name, "."))
	}
	return nil
}

func (r *reader) calling(path string, raw json.RawMessage, declared map[string]bool) error {
	o, err := newObject(path, raw, callingNames)
	if err != nil {
		return err
	}
	var name string
	var allowed []string
	if err := o.takeAll(field{"mode", &name}, field{"allowedFunctionNames", &allowed}); err != nil {
		return err
	}
	mode, ok := modes[name]
	if !ok {
		return apierr.Invalid(o.at("mode"), "must be AUTO, ANY, NONE or VALIDATED")
	}
	for i, name := range allowed {
		if !declared[name] {
			return apierr.Invalid(dialect.At(o.at("allowedFunctionNames"), i), "must be one of the functions")
		}
	}
	for _, name := range o.Rest() {
		r.chat.Ignores("toolConfig.functionCallingConfig." + name)
	}
	if len(r.chat.Chat.Tools) == 0 || mode == "" && len(allowed) == 0 {
		return nil
	}
	r.choose(mode, allowed)
	return nil
}

// choose leaves the model only the functions that it may call; vendors without such a choice don't get the others.
func (r *reader) choose(mode string, allowed []string) {
	c := &r.chat.Chat
	if len(allowed) > 0 {
		may := make(map[string]bool, len(allowed))
		for _, name := range allowed {
			may[name] = true
		}
		c.Tools = slices.DeleteFunc(c.Tools, func(t provider.Tool) bool { return !may[t.Name] })
	}
	switch {
	case mode == "":
	case mode == "required" && len(c.Tools) == 1 && len(allowed) > 0:
		c.ToolChoice = &provider.ToolChoice{Mode: "tool", Name: c.Tools[0].Name}
	default:
		c.ToolChoice = &provider.ToolChoice{Mode: mode}
	}
}
