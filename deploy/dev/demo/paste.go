package demo

import "strings"

// Paste holds commands to try by hand, which work as they are.
type Paste struct {
	Title string
	Do    string // a shell command
	See   string // a command that shows the effect; "" when the answer does
}

// Pastes returns the three main jobs through the edge, and a link to the portal. That needs a token, which it reads from
// envFile, so that no token is shown.
func Pastes(e Env, envFile string) []Paste {
	return []Paste{
		{
			Title: "A chat completion, streamed",
			Do: curl(e.EdgeURL+"/product/v1/ai/chat", e.AIKey, "-N ",
				`{"model":"sandbox","messages":[{"role":"user","content":"Hello, who are you?"}],"stream":true}`),
		},
		{
			Title: "A signed webhook, and what arrived at the receiver",
			Do: curl(e.EdgeURL+"/product/v1/webhooks/deliveries", e.WebhooksKey, "",
				`{"url":"`+e.ReceiverURL+`/hooks/demo","event_type":"order.paid","payload":{"order":"A-1001","total_cents":4200}}`),
			See: "curl " + quote(e.ReceiverURL+"/_arrivals?limit=1"),
		},
		{
			Title: "An in-app notification, and the inbox of its user",
			Do: curl(e.EdgeURL+"/product/v1/notifications/send", e.NotificationsKey, "",
				`{"channels":["in_app"],"subject":"Your order","message":"It is on its way.","target":{"user_id":"ann"}}`),
			See: "curl " + quote(e.EdgeURL+"/product/v1/notifications/inbox?user_id=ann") + " -H " + quote("Authorization: Bearer "+e.NotificationsKey),
		},
		{
			Title: "A link to the pages of this customer's people, which works once: open its url in a browser",
			Do: "(. " + quote(envFile) + `; curl "$EDGE_URL/admin/v1/portal/sessions" -H "Authorization: Bearer $OPERATOR_TOKEN" ` + "\\\n" +
				`  -d '{"organization_id":"'"$ORGANIZATION_ID"'","user_id":"ann","scopes":["webhooks:*","ai:usage:read","notifications:*","keys:write"],` +
				`"return_url":"'"$EDGE_URL"'/docs"}')`,
		},
	}
}

// Source returns the line with which a shell takes the variables of the settings file.
func Source(envFile string) string { return "set -a; . " + quote(envFile) + "; set +a" }

func curl(url, key, flags, body string) string {
	return strings.Join([]string{
		"curl " + flags + quote(url),
		"-H " + quote("Authorization: Bearer "+key),
		"-H " + quote("Content-Type: application/json"),
		"-d " + quote(body),
	}, " \\\n  ")
}

// quote returns a text as one word for a POSIX shell; a text that is one already stays as it is. [unquote] is its inverse.
func quote(text string) string {
	if text != "" && plain(text) && !strings.ContainsAny(text, "[]") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// unquote returns the text of a word that quote has written. Other words stay as they are.
func unquote(word string) string {
	inside, quoted := strings.CutPrefix(word, "'")
	inside, ends := strings.CutSuffix(inside, "'")
	if !quoted || !ends {
		return word
	}
	return strings.ReplaceAll(inside, `'\''`, "'")
}
