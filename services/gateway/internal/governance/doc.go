// Package governance is the district of who may do what, and who decided it: organizations, runs, terms of product
// keys, approvals of tools, trust in tool servers, rules for calls of tools, and the operators' overrides of routing.
//
// Its packages state rules and the Store interfaces that package postgres implements. The API reads and changes them;
// the serving pipeline checks them before it calls a vendor. From the bottom up: amount computes with money, principal
// and audit compare and record who decided, and pattern compares names. trust builds on principal and audit, toolrule
// on trust and pattern, run on amount and pattern, approval on principal, audit and toolrule, organization on amount,
// and keyterm on organization. organization, control and steering are independent of each other.
package governance
