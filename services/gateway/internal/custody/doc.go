// Package custody is the district of credentials: where a vendor's key comes from, how it is kept, and whom a leak of it
// concerns.
//
// The serving pipeline resolves the key of a call through keyring and hands it to the vendor adapter that sends it; the
// API stores and rotates organizations' own keys through byok. From the bottom up: sealing, secretref and keyring; byok,
// which builds on all three; exposure stands by itself and reads the ledger through its Store.
package custody
