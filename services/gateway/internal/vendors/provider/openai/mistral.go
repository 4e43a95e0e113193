package openai

import "switchyard.dev/services/gateway/internal/vendors/provider"

// orderForMistral prepares a message for its place behind out, and returns out with the assistant's turn that Mistral's
// validator requires between results and the user's turn. It makes an instruction the user's if the validator accepts
// none in the place. Source: mistral-common, MistralRequestValidator, which Mistral's service and vLLM use.
func orderForMistral(out []message, next *message) []message {
	if len(out) == 0 {
		return out
	}
	const system, user = string(provider.RoleSystem), string(provider.RoleUser)
	const assistant, tool = string(provider.RoleAssistant), string(provider.RoleTool)
	before := out[len(out)-1].Role
	if next.Role == system && (before == assistant || before == tool) {
		next.Role = user
	}
	if next.Role == user && before == tool {
		out = append(out, message{Role: assistant, Content: provider.Bridge})
	}
	return out
}
