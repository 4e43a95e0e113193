// Package mcp is the district of tools: the servers of the Model Context Protocol that organizations call through the
// gateway, what they offer, and each call's way to one of them and back.
//
// The API calls toolcall, and nothing else starts a call of a tool. From the bottom up: toolserver and definition, what is
// registered and what was reviewed; listing, which keeps definitions up to date; wire, the protocol's messages; task,
// results that come later; upstream, the client of servers; offering, which keeps what servers offer beside tools; input,
// what servers ask of callers; ticket, texts that callers bring back; toolcall, which puts the checks of a call in order;
// sampling, completions for servers that ask for them; session and notice, which callers of older revisions and those that
// listen have. What the policy says of tools is in the district of governance.
package mcp
