package api

import (
	"net/http"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/platform/apidoc"
)

// ownOperation returns the OpenAPI operation of a route that the role control answers, which no other contract describes. It
// reports false for another route.
func ownOperation(r route.Route) (apidoc.Object, bool) {
	switch r.Method + " " + r.Target {
	case http.MethodGet + " " + alertRulesTarget:
		return apidoc.Object{"responses": apidoc.Object{"200": answerOf("The rules.", alertRulesSchema())}}, true
	case http.MethodPut + " " + alertRulesTarget:
		return apidoc.Object{
			"description": "A rule tells people of events of the organization: the types that it selects, by the channels that it names. " +
				"An empty list is no rules.",
			"requestBody": jsonBody(alertRulesSchema()),
			"responses":   apidoc.Object{"200": answerOf("The rules.", alertRulesSchema())},
		}, true
	case http.MethodGet + " " + approversTarget:
		return apidoc.Object{"responses": apidoc.Object{"200": answerOf("The groups.", approverGroupsSchema())}}, true
	case http.MethodPut + " " + approversTarget:
		return apidoc.Object{
			"description": "A group names the people who decide on approvals of a policy's rule, and the steps by which they are notified until " +
				"one of them has decided. An empty list is no groups.",
			"requestBody": jsonBody(approverGroupsSchema()),
			"responses":   apidoc.Object{"200": answerOf("The groups.", approverGroupsSchema())},
		}, true
	case http.MethodGet + " " + decisionTarget:
		return apidoc.Object{
			"description": "Only the user's own token counts: a key can't name the user. 403 for a user who is not in the group that decides.",
			"responses":   apidoc.Object{"200": answerOf("The approval.", decisionSchema())},
		}, true
	case http.MethodPost + " " + decisionTarget:
		return apidoc.Object{
			"description": "Only the user's own token counts: a key can't name the user. 403 for a user who is not in the group that decides, " +
				"409 for what is decided or has changed, 410 for what has expired.",
			"requestBody": jsonBody(choiceSchema()),
			"responses":   apidoc.Object{"200": answerOf("The approval.", decisionSchema())},
		}, true
	case http.MethodPost + " /v1/tokens":
		return apidoc.Object{
			"description": "The token can do no more than the key that mints it. It is in no other answer.",
			"requestBody": jsonBody(mintSchema()),
			"responses": apidoc.Object{"201": answerOf("The token.", object("A token of an end user.", apidoc.Object{
				"id": text("The token's id, as the log has it."), "token": text("The token: swt_…, for Authorization after Bearer."),
				"expires_at": apidoc.Object{"type": "string", "format": "date-time", "description": "When it ends."},
			}))},
		}, true
	case http.MethodPost + " /v1/tokens/revoke":
		return apidoc.Object{
			"description": "They are refused everywhere within a second, and their calls in flight end.",
			"requestBody": jsonBody(object("Whose tokens are refused.", apidoc.Object{
				"user_id": identifier("The user; without it those of all users of the organization."), "organization_id": keysOrganization(),
			})),
			"responses": apidoc.Object{"204": apidoc.Object{"description": "They are refused."}},
		}, true
	}
	return nil, false
}

func mintSchema() apidoc.Object {
	scopes := []any{}
	for _, scope := range apikey.EndUserScopes() {
		scopes = append(scopes, string(scope))
	}
	body := object("A token of an end user.", apidoc.Object{
		"user_id": identifier("The user that calls with the token."), "organization_id": keysOrganization(),
		"owner_id": identifier("The owner within the organization, to whom the calls are narrowed."),
		"scopes": apidoc.Object{
			"type": "array", "minItems": 1, "maxItems": len(scopes), "description": "What the token may do: only what the key may do itself.",
			"items": apidoc.Object{"type": "string", "enum": scopes},
		},
		"ttl_seconds": apidoc.Object{"type": "integer", "minimum": 1, "maximum": usertoken.MaxLife.Seconds(), "description": "How long it is valid."},
		"origins": apidoc.Object{
			"type": "array", "maxItems": usertoken.MaxTokenOrigins, "items": apidoc.Object{"type": "string"},
			"description": "Web origins whose pages may call with it, some of the organization's; without it all of those.",
		},
	})
	body["required"] = []any{"user_id", "scopes", "ttl_seconds"}
	return body
}

func identifier(meaning string) apidoc.Object {
	return bounded(meaning, 1, 256)
}

func keysOrganization() apidoc.Object {
	return text("The key's organization, which may be left out; another one is refused.")
}

func jsonBody(schema apidoc.Object) apidoc.Object {
	return apidoc.Object{"required": true, "content": jsonContent(schema)}
}

func answerOf(meaning string, schema apidoc.Object) apidoc.Object {
	return apidoc.Object{"description": meaning, "content": jsonContent(schema)}
}

func jsonContent(schema apidoc.Object) apidoc.Object {
	return apidoc.Object{"application/json": apidoc.Object{"schema": schema}}
}
