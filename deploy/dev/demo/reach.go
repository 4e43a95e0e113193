package demo

import (
	"context"

	"switchyard.dev/deploy/dev/stack"
)

// Reach returns how a running stack is reached for an organization. It creates the product keys, except those of before
// that the edge still accepts.
func Reach(ctx context.Context, s *stack.Stack, organization string, before Env) (Env, error) {
	env := Env{
		EdgeURL:          s.URL(string(stack.Edge)),
		EdgeMetricsURL:   s.MetricsURL(string(stack.Edge)),
		GatewayURL:       s.URL(string(stack.Gateway)),
		WebhookEgressURL: s.URL(string(stack.WebhookEgress)),
		NotifyURL:        s.URL(string(stack.Notify)),
		ToolServerURL:    s.FakeURL(stack.FakeTools) + "/mcp",
		ReceiverURL:      s.FakeURL(stack.FakeWebhook),

		GatewayGRPC:       s.GRPC(string(stack.Gateway)),
		WebhookEgressGRPC: s.GRPC(string(stack.WebhookEgress)),
		NotifyGRPC:        s.GRPC(string(stack.Notify)),

		ServiceToken:  s.Secrets().Service,
		OperatorToken: s.Secrets().Operator,
		SupportToken:  s.Secrets().Support,

		OrganizationID: organization,
		WebhookSecret:  s.Secrets().Webhook,

		BYOKSecretsDir: s.BYOKSecretsDir(),
	}
	for _, key := range []struct {
		known, into *string
		request     stack.Key
		path        string // of a route of its product
	}{
		{&before.AIKey, &env.AIKey, stack.Key{Product: "ai", Permission: "read,write,ai:approvals:decide,ai:approvers:write", Name: "demo-ai"}, "/product/v1/ai/approvals/none/deny"},
		{&before.WebhooksKey, &env.WebhooksKey, stack.Key{Product: "webhooks", Permission: "read,write", Name: "demo-webhooks"}, "/product/v1/webhooks/deliveries"},
		{&before.NotificationsKey, &env.NotificationsKey, stack.Key{Product: "notifications", Permission: "read,write,notifications:tokens:mint", Name: "demo-notifications"}, "/product/v1/notifications/send"},
	} {
		key.request.Organization = organization
		var err error
		if *key.into, err = s.EnsureKey(ctx, *key.known, key.path, key.request); err != nil {
			return env, err
		}
	}
	return env, nil
}
