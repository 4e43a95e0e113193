// Package money is the district of what a request costs, may cost and did cost.
//
// The serving pipeline reserves before a call and writes the ledger after it; the API reads the ledger, and operators
// reconcile it with vendors' invoices. From the bottom up: price; ledger and budget, which both count in its unit
// (pico-USD); reconcile stands by itself.
package money
