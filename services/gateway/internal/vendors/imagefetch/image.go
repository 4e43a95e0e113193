package imagefetch

import (
	"bytes"
	"encoding/base64"
	"io"
	"strings"
)

// Image is an image as it was received.
type Image struct {
	// Type is image/jpeg, image/png, image/gif or image/webp.
	Type string
	Data []byte
}

// DataURI returns the image as a data: URI (RFC 2397).
func (i Image) DataURI() string {
	head := dataURI(i.Type)
	text := make([]byte, 0, len(head)+base64.StdEncoding.EncodedLen(len(i.Data)))
	return string(base64.StdEncoding.AppendEncode(append(text, head...), i.Data))
}

// DataURI returns a data: URI with base64 text of a media type. It validates neither.
func DataURI(mediaType, text string) string { return dataURI(mediaType) + text }

func dataURI(mediaType string) string { return "data:" + mediaType + ";base64," }

// headBytes is the number of bytes from which the type is determined.
const headBytes = 12

// Type returns the media type of an image, given its first bytes, or "" if it is not one of the accepted types. Source:
// WHATWG MIME Sniffing, section 6.1.
func Type(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return "image/gif"
	case len(head) >= headBytes && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// standardAlphabet converts base64 for URLs (RFC 4648, section 5), which Google's APIs also accept, to standard base64.
var standardAlphabet = strings.NewReplacer("-", "+", "_", "/")

// TypeOfBase64 is Type for an image in standard base64 or base64 for URLs.
func TypeOfBase64(text string) string {
	const enough = headBytes / 3 * 4
	head := make([]byte, headBytes)
	n, _ := base64.StdEncoding.Decode(head, []byte(standardAlphabet.Replace(text[:min(len(text), enough)])))
	return Type(head[:n])
}

const kinds = "is not a JPEG, PNG, GIF or WebP image"

func identify(data []byte) (Image, error) {
	kind := Type(data[:min(len(data), headBytes)])
	if kind == "" {
		return Image{}, image.invalid("the file "+kinds, nil)
	}
	return Image{kind, data}, nil
}

// CheckDataURI returns an error if uri is not a data: URI with an image in standard base64 of at most MaxBytes. It
// returns the URI with the type that the image's first bytes show, even if uri claims another, and the image's size in
// bytes. Errors are *apierr.Error of kind 400, with a text that begins with the rule and contains nothing of the image.
func CheckDataURI(uri string) (checked string, size int, err error) {
	head, text, found := strings.Cut(uri, ",")
	claimed, isBase64 := strings.CutSuffix(strings.TrimPrefix(head, "data:"), ";base64")
	switch {
	case !found || !strings.HasPrefix(uri, "data:") || !isBase64:
		return "", 0, image.invalid("must be a data: URI in base64", nil)
	case base64.StdEncoding.DecodedLen(len(text)) > MaxBytes+2: // DecodedLen includes padding.
		return "", 0, image.tooLarge()
	case strings.ContainsAny(text, "\r\n"):
		return "", 0, image.invalid("must be base64 (RFC 4648, section 4) without line breaks", nil)
	}
	size, err = base64Size(text)
	if err != nil {
		return "", 0, err
	}
	switch kind := TypeOfBase64(text); {
	case size > MaxBytes:
		return "", 0, image.tooLarge()
	case kind == "":
		return "", 0, image.invalid(kinds, nil)
	case kind != claimed:
		return DataURI(kind, text), size, nil
	}
	return uri, size, nil
}

// base64Size returns the decoded size of text without keeping the bytes.
func base64Size(text string) (int, error) {
	n, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return 0, image.invalid("must be base64 (RFC 4648, section 4), padded", nil)
	}
	return int(n), nil
}
