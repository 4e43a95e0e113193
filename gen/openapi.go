// Package gen gives the OpenAPI documents of the contracts to the services that
// serve them; everything below go and openapi is generated.
package gen

import "embed"

// OpenAPI holds openapi/<face>.swagger.json for gateway, webhooks and notify.
//
//go:embed openapi/*.swagger.json
var OpenAPI embed.FS
