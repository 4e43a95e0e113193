// Package governance is the district of who may do what, and who decided it: organizations, runs, terms of product
// keys, approvals of tools, trust in tool servers, rules for calls of tools, and the operators' overrides of routing.
//
// Its packages state rules and the Store interfaces that package postgres implements. The API reads and changes them;
// the serving pipeline checks them before it calls a vendor. From the bottom up: amount, which computes with money,
// principal and audit, which compare and record who decided, and pattern, which compares names; trust, built on principal
// and audit; toolrule, built on trust and pattern; run, built on amount and pattern; approval, built on principal, audit
// and toolrule; organization, built on amount, control and steering, which are independent of each other; keyterm, built
// on organization.
package governance
