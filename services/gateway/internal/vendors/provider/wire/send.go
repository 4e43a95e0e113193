package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// sendRelay sends a relayed call, with its model, and returns the vendor's 2xx response.
func (c *Caller) sendRelay(ctx context.Context, at *url.URL, header http.Header, call *provider.Relay) (*http.Response, error) {
	if call.Parts == nil {
		body, err := withModel(call)
		if err != nil {
			return nil, err
		}
		return c.Post(ctx, at, header, body)
	}
	pieces, kind, err := formOf(call)
	if err != nil {
		return nil, err
	}
	header.Set("Content-Type", kind)
	return c.send(ctx, at, header, pieces)
}

// withModel returns a call's body with its model. Every other field stays byte for byte.
func withModel(call *provider.Relay) (json.RawMessage, error) {
	own := ParseView(call.Body)
	if !jsoncheck.Valid(call.Body) || !own.IsObject() {
		return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "the request is not a JSON object"}
	}
	model, err := json.Marshal(call.Model)
	if err != nil {
		return nil, Unencodable(err)
	}
	members := []Member{{"model", string(model)}}
	if call.Stream || own.Get("stream").Exists() {
		members = append(members, Member{"stream", strconv.FormatBool(call.Stream)})
	}
	return Override(call.Body, members...), nil
}

// formOf returns a call's form, with its model, in pieces, and its media type.
func formOf(call *provider.Relay) (pieces [][]byte, kind string, err error) {
	parts := []provider.FormPart{{Name: "model", Data: []byte(call.Model)}}
	if call.Stream {
		parts = append(parts, provider.FormPart{Name: "stream", Data: []byte("true")})
	}
	for _, part := range call.Parts {
		if part.Name != "model" && part.Name != "stream" {
			parts = append(parts, part)
		}
	}
	return encodeForm(parts)
}

// encodeForm returns a form in pieces, and its media type. Files are not copied.
func encodeForm(parts []provider.FormPart) (pieces [][]byte, kind string, err error) {
	var heads bytes.Buffer
	form := multipart.NewWriter(&heads)
	add := func(p *provider.FormPart) {
		header := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name="%s"`, escapeQuotes(p.Name))}}
		if p.FileName != "" {
			header.Set("Content-Disposition", multipart.FileContentDisposition(p.Name, p.FileName))
		}
		if p.ContentType != "" {
			header.Set("Content-Type", p.ContentType)
		}
		if err == nil {
			_, err = form.CreatePart(header)
		}
		pieces = append(pieces, bytes.Clone(heads.Bytes()), p.Data)
		heads.Reset()
	}
	for i := range parts {
		add(&parts[i])
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		return nil, "", Unencodable(err)
	}
	return append(pieces, heads.Bytes()), form.FormDataContentType(), nil
}

// escapeQuotes returns a field's name as browsers write it (WHATWG HTML, multipart/form-data encoding algorithm).
var escapeQuotes = strings.NewReplacer("\r", "%0D", "\n", "%0A", `"`, "%22").Replace

// outgoingPieces is a body of several pieces. A connection reads it while it writes.
type outgoingPieces struct {
	io.Reader

	pieces  [][]byte
	left    int64
	receipt *provider.Receipt
}

func newPieces(pieces [][]byte, receipt *provider.Receipt) *outgoingPieces {
	o := &outgoingPieces{pieces: pieces, receipt: receipt}
	readers := make([]io.Reader, len(pieces))
	for i, piece := range pieces {
		readers[i] = bytes.NewReader(piece)
		o.left += int64(len(piece))
	}
	o.Reader = io.MultiReader(readers...)
	return o
}

func (o *outgoingPieces) Read(p []byte) (int, error) {
	n, err := o.Reader.Read(p)
	if o.left -= int64(n); o.left == 0 {
		o.receipt.SetSent()
	}
	return n, err
}

// Close does nothing: the body is in memory.
func (o *outgoingPieces) Close() error { return nil }

// addTo implements summed.
func (o *outgoingPieces) addTo(h hash.Hash) {
	for _, piece := range o.pieces {
		h.Write(piece)
	}
}

// send sends a body of several pieces.
func (c *Caller) send(ctx context.Context, at *url.URL, header http.Header, pieces [][]byte) (*http.Response, error) {
	body := newPieces(pieces, provider.ReceiptOf(ctx))
	return c.roundTrip(ctx, http.MethodPost, at, header, body, body.left)
}

// PostForm sends a form of several parts (RFC 7578) and returns the vendor's 2xx response, as Post does.
func (c *Caller) PostForm(ctx context.Context, at *url.URL, header http.Header, parts []provider.FormPart) (*http.Response, error) {
	pieces, kind, err := encodeForm(parts)
	if err != nil {
		return nil, err
	}
	header.Set("Content-Type", kind)
	return c.send(ctx, at, header, pieces)
}

// Call sends a request without a body and returns the vendor's 2xx response, as Post does.
func (c *Caller) Call(ctx context.Context, method string, at *url.URL, header http.Header) (*http.Response, error) {
	return c.roundTrip(ctx, method, at, header, http.NoBody, 0)
}

// Delete deletes what is at a URL. What is gone already is no error.
func (c *Caller) Delete(ctx context.Context, at *url.URL, header http.Header) error {
	response, err := c.Call(ctx, http.MethodDelete, at, header) //nolint:bodyclose // Finish closes it.
	if e, ok := errors.AsType[*provider.Error](err); ok && e.Status == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	_ = Finish(response.Body) // The status is the answer.
	return nil
}
