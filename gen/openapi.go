// Package gen gives the OpenAPI documents of the contracts to the services that
// serve them; everything below go and openapi is generated.
package gen

import "embed"

// OpenAPI holds openapi/<face>.swagger.json for gateway, webhooks and notify, and openapi/errors.json, a list of the
// error codes with HTTP status and meaning.
//
//go:embed openapi/*.json
var OpenAPI embed.FS
