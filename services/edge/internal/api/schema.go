package api

import (
	"maps"
	"slices"

	"switchyard.dev/services/platform/apidoc"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// object returns the schema of an object with these properties.
func object(description string, properties apidoc.Object) apidoc.Object {
	return apidoc.Object{"type": "object", "description": description, "properties": properties}
}

func text(meaning string) apidoc.Object {
	return apidoc.Object{"type": "string", "description": meaning}
}

// detail returns the properties that every error has, whatever its dialect.
func detail() apidoc.Object {
	return apidoc.Object{
		"error_class": apidoc.Object{"type": "string", "description": "For programs to branch on.", "enum": []any{
			"transient", "rate_limit", "server_error", "auth", "policy", "context_overflow", "content_policy",
		}},
		"retryable":   apidoc.Object{"type": "boolean", "description": "Whether the same request may succeed later."},
		"retry_after": apidoc.Object{"type": "integer", "description": "Seconds to wait, when that is known."},
		"request_id":  text("Names the request in logs and traces."),
	}
}

// ownError returns the schema of apierr.Document.
func ownError() apidoc.Object {
	properties := detail()
	properties["error"], properties["reason"] = text("Code, such as rate_limited."), text("For people.")
	properties["violations"] = apidoc.Object{
		"type": "array", "maxItems": 10, "description": "Places of the field at fault that break its rules; absent where the reason says all.",
		"items": object("A place that breaks a rule.", apidoc.Object{
			"pointer": text("JSON pointer of the place within the field; empty for the field itself."), "rule": text("What the place must be."),
		}),
	}
	return object("What went wrong.", properties)
}

// plainError returns the schema of apierr.Plain.
func plainError() apidoc.Object {
	return object("What went wrong.", apidoc.Object{
		"error":       text("For people. Programs branch on the status."),
		"retry_after": detail()["retry_after"],
	})
}

// jsonRPCError returns the schema of jsonRPC.
func jsonRPCError() apidoc.Object {
	return object("What went wrong before the request was read, as JSON-RPC has it; without an id.", apidoc.Object{
		"jsonrpc": text("Always 2.0."),
		"error": object("The error.", apidoc.Object{
			"code":    apidoc.Object{"type": "integer", "description": "-31000 minus the HTTP status, such as -31429; -32600 for a request that can't be read."},
			"message": text("For people."),
			"data": object("For programs.", apidoc.Object{
				"reason": text("Code, such as rate_limited."), "error_class": detail()["error_class"], "retryable": detail()["retryable"],
				"request_id": detail()["request_id"], "field": text("Field at fault."),
				"retry_after_ms": apidoc.Object{"type": "integer", "description": "Milliseconds to wait, when that is known."},
			}),
		}),
	})
}

func openAIError() apidoc.Object {
	properties := detail()
	properties["message"], properties["type"] = text("For people."), text("Such as rate_limit_error, or insufficient_quota when a plan or the credits are used up.")
	properties["reason"] = text("Switchyard's code of a refusal with insufficient_quota: quota_exceeded or credits_exhausted.")
	properties["code"], properties["param"] = text("Code, such as rate_limit_exceeded."), apidoc.Object{"type": []any{"string", "null"}, "description": "Field at fault."}
	return object("What went wrong, in the words of the OpenAI API.", apidoc.Object{"error": object("The error.", properties)})
}

func anthropicError() apidoc.Object {
	properties := detail()
	properties["message"], properties["type"], properties["code"] = text("For people."), text("Such as rate_limit_error, or billing_error when a plan or the credits are used up."), text("Code, such as rate_limited.")
	return object("What went wrong, in the words of the Anthropic API.", apidoc.Object{
		"type": text("Always error."), "error": object("The error.", properties), "request_id": text("Names the request in logs and traces."),
	})
}

func geminiErrorSchema() apidoc.Object {
	properties := detail()
	properties["message"], properties["status"] = text("For people."), text("Such as RESOURCE_EXHAUSTED.")
	properties["code"] = apidoc.Object{"type": "integer", "description": "The HTTP status."}
	properties["details"] = apidoc.Object{"type": "array", "items": apidoc.Object{"type": "object"}, "description": "Such as google.rpc.RetryInfo."}
	return object("What went wrong, in the words of the Gemini API.", apidoc.Object{"error": object("The error.", properties)})
}
