package sandbox

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"strconv"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

const (
	// defaultSide is the side of an image in pixels, maxSide the largest that may be requested.
	defaultSide = 256
	maxSide     = 1536
	// fields is how many fields an image has in each direction.
	fields = 8
)

// MakeImages draws mirrored patterns of two colors that depend on the prompt, the model and the index of the image.
// Nothing is stored: a URL is a data: URI.
func (p *Provider) MakeImages(ctx context.Context, _ provider.Credential, d *provider.ImageRequest) (*provider.Images, error) {
	if err := begin(ctx, d.Model); err != nil {
		return nil, err
	}
	width, height, ok := size(d.Size)
	if !ok {
		return nil, provider.Unsupported("size", fmt.Sprintf("must be auto or {width}x{height} of at most %d for the sandbox", maxSide))
	}
	mediaType := "image/png"
	switch d.Format {
	case "", "png":
	case "jpeg":
		mediaType = "image/jpeg"
	default:
		return nil, provider.Unsupported("output_format", "must be png or jpeg for the sandbox")
	}
	made := &provider.Images{Model: d.Model, Usage: new(provider.Estimate(len(d.Prompt), 0))}
	made.Usage.Images = int64(d.Count)
	for i := range d.Count {
		if ctx.Err() != nil {
			return nil, wire.Interrupted(ctx, ctx.Err())
		}
		text, err := encode(draw(d.Model, d.Prompt, i, width, height), mediaType)
		if err != nil {
			return nil, wire.Malformed("the image could not be written", err)
		}
		if d.Delivery == "url" {
			made.Images = append(made.Images, provider.Image{URL: "data:" + mediaType + ";base64," + text})
		} else {
			made.Images = append(made.Images, provider.Image{Base64: text, MediaType: mediaType})
		}
	}
	return made, nil
}

func size(text string) (width, height int, ok bool) {
	if text == "" || text == "auto" {
		return defaultSide, defaultSide, true
	}
	before, after, _ := strings.Cut(text, "x")
	width, errWidth := strconv.Atoi(before)
	height, errHeight := strconv.Atoi(after)
	return width, height, errWidth == nil && errHeight == nil && min(width, height) > 0 && max(width, height) <= maxSide
}

func draw(model, prompt string, number, width, height int) image.Image {
	random := seeded(model, prompt, strconv.Itoa(number))
	shade := func() color.Color {
		c := random.Uint32()
		return color.RGBA{R: byte(c), G: byte(c >> 8), B: byte(c >> 16), A: 255}
	}
	picture := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{shade(), shade()})
	var pattern [fields][fields]uint8
	for y := range fields {
		for x := range fields / 2 {
			pattern[y][x] = uint8(random.IntN(2))
			pattern[y][fields-1-x] = pattern[y][x]
		}
	}
	for y := range height {
		for x := range width {
			picture.SetColorIndex(x, y, pattern[y*fields/height][x*fields/width])
		}
	}
	return picture
}

func encode(picture image.Image, mediaType string) (string, error) {
	var out bytes.Buffer
	var err error
	if mediaType == "image/jpeg" {
		err = jpeg.Encode(&out, picture, nil)
	} else {
		err = png.Encode(&out, picture)
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), err
}
