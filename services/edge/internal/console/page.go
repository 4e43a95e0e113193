package console

import (
	"embed"
	"maps"
	"net/http"

	"switchyard.dev/services/edge/internal/portal"
)

// Prefix begins all paths of the console.
const Prefix = "/console/"

//go:embed page
var files embed.FS

// Pages returns the handlers of the pages' files, by path: the console's own, and those that it shares with the portal.
// The first page is at Prefix.
func Pages() (map[string]http.Handler, error) {
	shared, err := portal.Shared(Prefix)
	if err != nil {
		return nil, err
	}
	own, err := portal.PagesOf(files, Prefix)
	if err != nil {
		return nil, err
	}
	maps.Copy(shared, own)
	return shared, nil
}
