package inference

import (
	"context"

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

// form adapts a chat to what a candidate accepts. relays reports whether it may get the caller's body. The body is
// sent, without settings that the model refuses, if the vendor accepts the rest of it, or if no other form can carry
// the request. Otherwise the chat is encoded anew. The error says that the vendor can't serve it in any form.
func (x *execution) form(c *candidate, chat *provider.Chat, relays bool) (*sentChat, error) {
	if relays {
		fitted, err := c.Terms.FitRelayed(chat)
		noOther := x.request.Route.Needs.Dialect != "" || x.request.Bounds.Offered != ""
		if err != nil && noOther { // The vendor decides.
			fitted, err = &provider.Fitted{Chat: chat}, nil
		}
		if err != nil {
			return nil, err
		}
		if noOther || !fitted.Rewritten && c.canRelay(chat) {
			return x.relayed(chat, fitted), nil
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

// canRelay reports whether the candidate's vendor accepts the caller's body.
func (c *candidate) canRelay(chat *provider.Chat) bool {
	p, asks := c.provider.(provider.Relaying)
	return !asks || p.CanRelay(chat)
}

// relayed returns a chat with the caller's body, without the settings that the model refuses.
func (x *execution) relayed(chat *provider.Chat, fitted *provider.Fitted) *sentChat {
	own := *chat
	own.Temperature, own.TopP, own.Stop = fitted.Temperature, fitted.TopP, fitted.Stop
	own.Native = x.without(fitted)
	return &sentChat{&provider.Fitted{Chat: &own, Left: fitted.Left}, true}
}

// without returns the caller's body without the settings that a model refuses. A body that can't be edited stays as it
// is, and the vendor decides.
func (x *execution) without(fitted *provider.Fitted) *provider.Native {
	native := *fitted.Native
	keep := func(edited []byte, err error) {
		if err == nil {
			native.Body = edited
		}
	}
	removed := fitted.Left | fitted.Unsent
	if len(fitted.Stop) > 0 {
		for _, name := range provider.Named(x.request.Hints, removed&provider.HintStop) {
			keep(sjson.SetBytes(native.Body, name, fitted.Stop))
		}
		removed &^= provider.HintStop
	}
	for _, name := range provider.Named(x.request.Hints, removed) { // Every edit copies the body: settings have few names.
		keep(sjson.DeleteBytes(native.Body, name))
	}
	return &native
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
