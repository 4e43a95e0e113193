package inference

import (
	"context"
	"slices"

	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// sentChat is a chat as a candidate got it. relayed reports whether that was the caller's own body.
type sentChat struct {
	*provider.Fitted

	relayed bool
}

// chat returns the request as a candidate gets it. A native body names images by URL, so that it can't be sent to a
// candidate that fetches none, unless only its dialect can carry it: then that vendor decides. So it is with documents.
func (x *execution) chat(ctx context.Context, c *candidate) (*provider.Fitted, error) {
	chat := x.request.Chat
	chat.Model = c.Upstream
	if chat.EndUser != "" {
		chat.EndUser = x.engine.Pseudonym(x.request.Organization, chat.EndUser)
	}
	relays := x.relays(c)
	if inlines := x.inlines(c); inlines.any() {
		if x.request.Route.Needs.Dialect == "" {
			chat.Native = nil
		}
		var err error
		if chat.Messages, err = x.inliner.inline(ctx, inlines); err != nil {
			return nil, err
		}
	}
	sent, err := x.form(c, &chat, relays)
	if err != nil {
		return nil, err
	}
	c.sent = sent
	return sent.Fitted, nil
}

// form adapts a chat to what a candidate accepts. relays reports whether it may get the caller's body.
func (x *execution) form(c *candidate, chat *provider.Chat, relays bool) (*sentChat, error) {
	if relays {
		if sent, err := x.relayed(c, chat); sent != nil || err != nil {
			return sent, err
		}
		translated := *chat
		translated.Native = nil
		chat = &translated
	}
	fitted, err := c.fit(chat)
	if err != nil {
		return nil, err
	}
	return &sentChat{Fitted: fitted}, nil
}

// relayed returns a chat with the caller's body, without the settings that the model refuses. It returns nil if the vendor
// refuses more of the body, so that the chat must be encoded anew, and an error if the vendor can't serve it in any form.
// If no other form can carry the request, the vendor decides.
func (x *execution) relayed(c *candidate, chat *provider.Chat) (*sentChat, error) {
	fitted, err := c.Terms.FitRelayed(chat)
	if x.request.Route.Needs.Dialect == "" && x.request.Bounds.Offered == "" {
		relaying, isAsked := c.provider.(provider.Relaying)
		switch {
		case err != nil:
			return nil, err
		case fitted.Rewritten, isAsked && !relaying.CanRelay(chat):
			return nil, nil //nolint:nilnil // Neither is the third result.
		}
	}
	if err != nil {
		return &sentChat{&provider.Fitted{Chat: chat}, true}, nil //nolint:nilerr // The vendor decides.
	}
	own := *chat
	own.Temperature, own.TopP, own.Stop = fitted.Temperature, fitted.TopP, fitted.Stop
	own.Native = x.without(fitted)
	return &sentChat{&provider.Fitted{Chat: &own, Left: fitted.Left}, true}, nil
}

// without returns the caller's body without the settings that a model refuses.
func (x *execution) without(fitted *provider.Fitted) *provider.Native {
	native := *fitted.Native
	for _, hint := range x.request.Hints {
		if hint.Kind&(fitted.Left|fitted.Unsent) == 0 {
			continue
		}
		if edited, err := withoutHint(native.Body, hint, fitted.Stop); err == nil { // Else the vendor decides.
			native.Body = edited
		}
	}
	return &native
}

// withoutHint returns a copy of a body without a field, or with the stop sequences that the model accepts.
func withoutHint(body []byte, hint provider.HintField, stops []string) ([]byte, error) {
	if hint.Kind == provider.HintStop && len(stops) > 0 {
		return sjson.SetBytes(slices.Clone(body), hint.Name, stops)
	}
	return sjson.DeleteBytes(slices.Clone(body), hint.Name)
}

// fit adapts a chat to what the candidate's model accepts.
func (c *candidate) fit(chat *provider.Chat) (*provider.Fitted, error) {
	if c.Lacks&policy.FeatureReasoning != 0 && chat.Reasoning != nil {
		lacking := *chat
		lacking.Reasoning = nil
		fitted, err := c.Terms.Fit(&lacking)
		if err == nil {
			fitted.Left |= provider.HintEffort
		}
		return fitted, err
	}
	return c.Terms.Fit(chat)
}

// relays reports whether a candidate may get the request as its caller wrote it.
func (x *execution) relays(c *candidate) bool {
	return c.Native && x.request.Chat.Native != nil && (x.request.Route.Needs.Dialect != "" || !x.inlines(c).any())
}

// ignored returns the fields of the request that the provider that served did not get.
func (x *execution) ignored() (names []string) {
	sent := x.served.sent
	if sent == nil { // The answer came from the cache.
		chat := x.request.Chat
		chat.Model = x.served.Upstream
		var err error
		if sent, err = x.form(&x.served, &chat, x.relays(&x.served)); err != nil {
			return nil // A chat that was served fits.
		}
	}
	if sent.relayed {
		if p, ok := x.served.provider.(provider.Omitter); ok {
			names = p.Omitted(sent.Chat)
		}
		return append(names, provider.Named(x.request.Hints, sent.Left)...)
	}
	names = provider.Ignored(x.request.Hints, (x.served.Hints|provider.HintSettings)&^sent.Left, x.served.Provider)
	if sent.Left&provider.HintEffort != 0 {
		names = append(names, "reasoning")
	}
	if sent.Left&provider.HintStrict != 0 {
		names = append(names, "strict")
	}
	return names
}
