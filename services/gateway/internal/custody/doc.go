// Package custody is the district of credentials: where a vendor's key comes from, how it is kept, and who is affected
// if it leaks.
//
// The serving pipeline resolves the key of a call through keyring and passes it to the vendor adapter that sends it;
// the API stores and rotates organizations' own keys through byok. From the bottom up: sealing, secretref, identity and
// keyring; byok, which builds on them; exposure, which is independent of the others and reads the ledger through its
// Store.
package custody
