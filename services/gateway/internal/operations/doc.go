// Package operations is the district of what operators look at: status, probes, the catalog of models and the console.
//
// Package api calls its packages; nothing in serving does. They do not import each other: status reads health and
// routing, probe sends requests through the serving pipeline, catalog joins the policy with prices, console is the page.
package operations
