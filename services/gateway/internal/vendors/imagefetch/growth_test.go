package imagefetch

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestCheckDataURIGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("data:image/png;base64,iVBORw0KGgo", growth.Text, ""), growth.Around("data:", growth.Text, ",")...)
	inputs = append(inputs, growth.Repeat("an image", "data:image/png;base64,iVBORw0K", "AAAA", ""), growth.Repeat("parameters", "data:image/png", ";a=b", ";base64,AAAA"))
	growth.Linear(t, growth.EachText(inputs, func(uri string) { _, _, _ = CheckDataURI(uri) })...)
}

func TestDocumentTypeGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("", growth.Text, ""), growth.Repeat("marks", "", "%PDF", ""), growth.Repeat("parameters", "text/plain", ";a=b", ""))
	growth.Linear(t, growth.EachText(inputs, func(text string) { documentType([]byte(text), text) })...)
}
