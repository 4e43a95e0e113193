// Package shipped embeds the routing policy, catalog, prices and golden set that the gateway ships with. internal/app uses
// each of them unless an operator names a file of their own. It also embeds the identities of models, which package
// identity reads.
package shipped

import _ "embed"

// Policy is the shipped routing policy.
//
//go:embed policy.yaml
var Policy []byte

// Catalog is the shipped catalog of models.
//
//go:embed catalog.yaml
var Catalog []byte

// Prices is the shipped price table.
//
//go:embed prices.yaml
var Prices []byte

// Golden is the shipped golden set.
//
//go:embed golden.yaml
var Golden []byte

// Identities is the table of the names by which hosts call one model.
//
//go:embed identities.yaml
var Identities []byte
