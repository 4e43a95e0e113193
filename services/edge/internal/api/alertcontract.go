package api

import (
	"fmt"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/platform/apidoc"
)

// alertRulesTarget is where the role control answers the rules of alerts, see package alert.
const alertRulesTarget = "/v1/alerts/rules"

// alertRulesSchema returns the schema of the rules of an organization, as they are set and read.
func alertRulesSchema() apidoc.Object {
	rules := object("The rules of an organization.", apidoc.Object{
		"organization_id": keysOrganization(),
		"rules":           listOf("All rules.", 0, alert.MaxRules, alertRuleSchema()),
	})
	rules["required"] = []any{"rules"}
	return rules
}

func alertRuleSchema() apidoc.Object {
	rule := object("Who is notified of which events.", apidoc.Object{
		"name": bounded("The rule's name: one line of at most 100 bytes, and of no other rule of the organization.", 1, alert.MaxName),
		"types": listOf("Types of events, such as switchyard.budget.threshold, or the beginning of some followed by .*, such as switchyard.budget.*.",
			1, alert.MaxTypes, apidoc.Object{"type": "string", "pattern": alert.TypePattern}),
		"where": apidoc.Object{
			"type": "object", "maxProperties": alert.MaxFields, "propertyNames": apidoc.Object{"pattern": alert.FieldPattern},
			"additionalProperties": apidoc.Object{"type": []any{"string", "number", "boolean"}, "maxLength": alert.MaxText},
			"description":          "Fields of the event's data and the values that they must equal: texts of at most 256 bytes, numbers or booleans.",
		},
		"to": listOf("Who is told, and by which channels.", 1, alert.MaxTargets, alertTargetSchema()),
		"repeat_after": apidoc.Object{"type": "string", "description": fmt.Sprintf(
			"How long the rule stays quiet after it told of the same type and subject: a duration such as 1h30m, from 0s, which is the default, to %.0fh.",
			alert.MaxRepeat.Hours())},
		"enabled": apidoc.Object{"type": "boolean", "description": "False keeps the rule and does not apply it. Default: true."},
	})
	rule["required"] = []any{"name", "types", "to"}
	return rule
}

// alertTargetSchema returns the schema of a target, with what each channel takes.
func alertTargetSchema() apidoc.Object {
	properties := apidoc.Object{
		"channel": apidoc.Object{
			"type": "string", "enum": []any{alert.InApp, alert.Slack, alert.Email, alert.WebPush, alert.Webhook},
			"description": "slack is the organization's own webhook, which it has given before: a rule holds no secret.",
		},
		"user_id":   bounded("The user, for in_app and web_push. in_app without it is a notice to the whole organization.", 1, alert.MaxUser),
		"broadcast": apidoc.Object{"type": "boolean", "description": "For web_push in place of user_id: true is every device of the organization."},
		"email":     bounded("For email: the address.", 3, alert.MaxText),
		"url": apidoc.Object{
			"type": "string", "pattern": "^https?://", "maxLength": alert.MaxURL, "description": "For webhook: an http or https URL of a public host.",
		},
	}
	target := object("A channel and its recipient.", properties)
	target["required"] = []any{"channel"}
	target["oneOf"] = []any{
		channelSchema(alert.InApp, "user_id"),
		channelSchema(alert.Slack),
		requiring(channelSchema(alert.Email, "email"), "email"),
		requiring(channelSchema(alert.Webhook, "url"), "url"),
		requiring(channelSchema(alert.WebPush, "user_id"), "user_id"),
		requiring(channelSchema(alert.WebPush, "broadcast"), "broadcast"),
	}
	return target
}

// channelSchema returns the schema of the targets of a channel that takes no fields but these.
func channelSchema(channel string, fields ...string) apidoc.Object {
	properties := apidoc.Object{"user_id": false, "broadcast": apidoc.Object{"const": false}, "email": false, "url": false}
	for _, field := range fields {
		properties[field] = true
	}
	if properties["broadcast"] == true {
		properties["broadcast"] = apidoc.Object{"const": true}
	}
	properties["channel"] = apidoc.Object{"const": channel}
	return apidoc.Object{"properties": properties}
}

func requiring(schema apidoc.Object, field string) apidoc.Object {
	schema["required"] = []any{field}
	return schema
}

// bounded returns the schema of a text.
func bounded(meaning string, low, high int) apidoc.Object {
	return apidoc.Object{"type": "string", "minLength": low, "maxLength": high, "description": meaning}
}

func listOf(meaning string, low, high int, items apidoc.Object) apidoc.Object {
	return apidoc.Object{"type": "array", "minItems": low, "maxItems": high, "items": items, "description": meaning}
}
