package dialect

import (
	"bytes"

	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Call is a parsed call that is relayed to a provider of its own dialect.
type Call struct {
	// Model that was asked for; empty leaves it to the policy.
	Model string
	// Extension is the JSON of what only this gateway supports; may be nil.
	Extension []byte
	// Relay is the call itself, without a model.
	Relay provider.Relay
}

// Source is the body of a call.
type Source struct {
	// ContentType is the media type that the caller named.
	ContentType string
	Body        []byte
}

// Finish reads what all calls with a JSON body have in common, after the call's own part was read. exact are the names
// that only their exact writing may have: they decide what the call costs.
func (c *Call) Finish(o *Object, body []byte, exact ...string) error {
	if err := o.exact("", append(exact, "model", "stream")); err != nil {
		return err
	}
	if err := o.Take("model", &c.Model); err != nil {
		return err
	}
	if err := o.Take("stream", &c.Relay.Stream); err != nil {
		return err
	}
	if c.Extension = o.Raw(Extension); c.Extension != nil {
		without, err := sjson.DeleteBytes(bytes.Clone(body), Extension)
		if err != nil {
			return apierr.Invalid(Extension, "can't be read")
		}
		body = without
	}
	c.Relay.Body, c.Relay.Media = body, mediaOfBody(body)
	return nil
}

// FinishForm is Finish for a form.
func (c *Call) FinishForm(f *Form) (err error) {
	if c.Model, err = f.Text("model"); err != nil {
		return err
	}
	stream, err := f.Text("stream")
	if err != nil {
		return err
	}
	extension, err := f.Text(Extension)
	if err != nil {
		return err
	}
	if extension != "" {
		c.Extension = []byte(extension)
	}
	c.Relay.Stream = stream == "true"
	c.Relay.Parts = f.without(Extension)
	c.Relay.Media = mediaOfForm(c.Relay.Parts)
	return nil
}

// Whole returns a number of a body, from 1 to most; absent for one that it doesn't hold.
func (o *Object) Whole(name string, most, absent int64) (int64, error) {
	if !o.Has(name) {
		return absent, nil
	}
	return o.whole(name, name, most)
}
