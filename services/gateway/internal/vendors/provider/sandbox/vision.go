package sandbox

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/gif" // The kinds that DecodeConfig measures, beside PNG and JPEG.
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// describeImages describes each image and document of the last user turn: "image/png 4x3, 70 bytes". An image that is not in the
// request is an error.
func describeImages(chat *provider.Chat) ([]string, error) {
	var descriptions []string
	for _, m := range slices.Backward(chat.Messages) {
		if m.Role != provider.RoleUser {
			continue
		}
		for _, part := range m.Content {
			if part.File != nil {
				kind, data, _ := part.File.Data()
				descriptions = append(descriptions, fmt.Sprintf("%s, %d bytes", cmp.Or(part.File.Name, kind, "a document"), base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(data, "=")))))
			}
			if part.ImageURL == "" {
				continue
			}
			description, err := describeImage(part.ImageURL)
			if err != nil {
				return nil, err
			}
			descriptions = append(descriptions, description)
		}
		break
	}
	return descriptions, nil
}

func describeImage(url string) (string, error) {
	head, text, found := strings.Cut(url, ",")
	if !found || !strings.HasPrefix(head, "data:") || !strings.HasSuffix(head, ";base64") {
		return "", provider.Unsupported("image_url", "must be a data: URI in base64 for the sandbox, which has no network")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", provider.Unsupported("image_url", "is not base64")
	}
	kind, _, _ := strings.Cut(http.DetectContentType(data), ";")
	if config, _, err := image.DecodeConfig(bytes.NewReader(data)); err == nil {
		kind += fmt.Sprintf(" %dx%d", config.Width, config.Height)
	}
	return fmt.Sprintf("%s, %d bytes", kind, len(data)), nil
}
