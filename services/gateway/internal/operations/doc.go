// Package operations is the district of what operators look at and ask: status, probes, the catalog of models and the
// console.
//
// The API calls it; nothing in serving does. Its packages stand side by side: status reads health and routing, probe
// sends questions through the serving pipeline, catalog joins the policy with prices, console is the page itself.
package operations
