package sandbox

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/gif" // The kinds that DecodeConfig measures, beside PNG and JPEG.
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// sights says of each image of the last user turn what it is: "image/png 4x3, 70
// bytes". An image that isn't in the request can't be seen.
func sights(chat *provider.Chat) ([]string, error) {
	var seen []string
	for _, m := range slices.Backward(chat.Messages) {
		if m.Role != provider.RoleUser {
			continue
		}
		for _, part := range m.Content {
			if part.ImageURL == "" {
				continue
			}
			sight, err := look(part.ImageURL)
			if err != nil {
				return nil, err
			}
			seen = append(seen, sight)
		}
		break
	}
	return seen, nil
}

func look(url string) (string, error) {
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
