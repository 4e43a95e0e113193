// Package money is the district of what a request costs, may cost and did cost.
//
// The serving pipeline reserves a call's worst case before the call and writes the ledger after it. The API reads the
// ledger and sums of it, and operators reconcile it with vendors' invoices. From the bottom up: price; tag, by which
// callers name what they spend on; ledger and budget, which both count in price's unit (pico-USD), and pricelist, which
// compares prices; spend, which sums up the ledger; reconcile, which is independent of the others.
package money
