// Package governance is the district of who may do what, and who decided it: organizations, runs, terms of product
// keys, approvals of tools, trust in tool servers, and the operators' overrides of routing.
//
// Its packages state rules and the Store interfaces that package postgres implements. The API reads and changes them;
// the serving pipeline checks them before it calls a vendor. From the bottom up: principal and audit, which compare and
// record who decided; approval and trust, built on both; organization, run, control and steering, which are independent
// of each other; keyterm, built on organization.
package governance
