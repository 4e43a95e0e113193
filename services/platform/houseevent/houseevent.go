// Package houseevent holds the events by which Switchyard's services tell organizations and operators what happens to
// them: the registry of their types, with a JSON Schema and an example of each one's data, and the [Relay] that sends the
// events of a service's outbox to webhook-egress until it has them.
package houseevent

import (
	"embed"
	"encoding/json"
	"slices"

	"switchyard.dev/services/platform/caller"
)

// The types of events, in the order of [Types].
const (
	BudgetThreshold       = "switchyard.budget.threshold"
	RunExhausted          = "switchyard.run.exhausted"
	ApprovalPending       = "switchyard.approval.pending"
	ApprovalDecided       = "switchyard.approval.decided"
	ApprovalSuperseded    = "switchyard.approval.superseded"
	QuotaReached          = "switchyard.quota.reached"
	CreditsExhausted      = "switchyard.credits.exhausted"
	CredentialFailing     = "switchyard.credential.failing"
	CredentialRecovered   = "switchyard.credential.recovered"
	CredentialRotationDue = "switchyard.credential.rotation_due"
	EndpointFailing       = "switchyard.endpoint.failing"
	EndpointRecovered     = "switchyard.endpoint.recovered"
	EndpointDisabled      = "switchyard.endpoint.disabled"
	DeliveryFailed        = "switchyard.delivery.failed"
	TargetCircuitOpened   = "switchyard.target.circuit_opened"
	TargetCircuitClosed   = "switchyard.target.circuit_closed"
	PriceDrift            = "switchyard.price.drift"
	CircuitOpened         = "switchyard.circuit.opened"
	CircuitClosed         = "switchyard.circuit.closed"
	ModelDeprecated       = "switchyard.model.deprecated"
	ModelRetiring         = "switchyard.model.retiring"
	PushKeyRejected       = "switchyard.push_key.rejected"
)

// Prefix is the beginning of all types.
const Prefix = "switchyard."

// OrganizationRule is the rule of the setting that names the organization of events that concern no single one; see
// [MayReceive].
const OrganizationRule = "must be printable ASCII without spaces, at most 128 characters"

// MayReceive reports whether an organization of this id may receive events.
func MayReceive(organization string) bool {
	return organization != "" && len(organization) <= 128 && caller.Printable(organization)
}

// The services that tell events, by which the sources of CloudEvents are named.
const (
	gateway       = "gateway"
	webhookEgress = "webhook-egress"
	notify        = "notify"
	edge          = "edge"
)

// Type describes a type of event.
type Type struct {
	Name string
	// Service is the service that tells it.
	Service string
	// Description says when, in one phrase.
	Description string
	// Subject is the form of the CloudEvent's subject.
	Subject string
	// Schema is the JSON Schema (2020-12) of the data, in one document without references. Later versions may add
	// properties; they remove none.
	Schema json.RawMessage
	// Example is data that matches the schema.
	Example json.RawMessage
}

//go:embed schemas/*.json examples/*.json
var files embed.FS

var types = load([]Type{
	{Name: BudgetThreshold, Service: gateway, Subject: "organization/…, key/… or run/…", Description: "a budget of the organization, a key or a run has reached a threshold"},
	{Name: RunExhausted, Service: gateway, Subject: "run/…", Description: "a run has used up a limit"},
	{Name: ApprovalPending, Service: gateway, Subject: "approval/…", Description: "an approval waits for a decision"},
	{Name: ApprovalDecided, Service: gateway, Subject: "approval/…", Description: "it is approved or denied"},
	{Name: ApprovalSuperseded, Service: gateway, Subject: "approval/…", Description: "policy or tool changed before a decision, and another approval takes its place"},
	{Name: QuotaReached, Service: edge, Subject: "organization/… or key/…", Description: "a limit of the plan of the organization or a key is used up, or 80 % of it is"},
	{Name: CreditsExhausted, Service: edge, Subject: "organization/…", Description: "the prepaid credits of the organization are used up or have expired"},
	{Name: CredentialFailing, Service: gateway, Subject: "credential/…", Description: "a provider refuses a credential"},
	{Name: CredentialRecovered, Service: gateway, Subject: "credential/…", Description: "the provider takes it again, or it was replaced"},
	{Name: CredentialRotationDue, Service: gateway, Subject: "credential/…", Description: "a credential is older than its rotation allows"},
	{Name: EndpointFailing, Service: webhookEgress, Subject: "endpoint/…", Description: "deliveries to a webhook endpoint keep failing"},
	{Name: EndpointRecovered, Service: webhookEgress, Subject: "endpoint/…", Description: "it takes deliveries again"},
	{Name: EndpointDisabled, Service: webhookEgress, Subject: "endpoint/…", Description: "it gets no more deliveries until it is made active again"},
	{Name: DeliveryFailed, Service: webhookEgress, Subject: "endpoint/… or delivery/…", Description: "a delivery has failed for good"},
	{Name: TargetCircuitOpened, Service: webhookEgress, Subject: "target/…", Description: "deliveries to a URL's host without an endpoint pause after failures"},
	{Name: TargetCircuitClosed, Service: webhookEgress, Subject: "target/…", Description: "they no longer pause"},
	{Name: PriceDrift, Service: gateway, Subject: "reconciliation/…", Description: "an invoice differs from the ledger"},
	{Name: CircuitOpened, Service: gateway, Subject: "circuit/…", Description: "a provider's circuit is open on a replica, and was on none"},
	{Name: CircuitClosed, Service: gateway, Subject: "circuit/…", Description: "no replica has had it open for 15 seconds"},
	{Name: ModelDeprecated, Service: gateway, Subject: "model/…", Description: "a model of the catalog is deprecated"},
	{Name: ModelRetiring, Service: gateway, Subject: "model/…", Description: "its cutoff is in 30, 7 or 1 days"},
	{Name: PushKeyRejected, Service: notify, Subject: "push_service/…", Description: "a push service refuses notify's VAPID key"},
})

// load returns types with their schemas and examples.
func load(all []Type) []Type {
	for i := range all {
		t := &all[i]
		t.Schema, t.Example = read("schemas", t.Name), read("examples", t.Name)
	}
	return all
}

// read returns an embedded file; a test reads them all.
func read(folder, name string) []byte {
	text, err := files.ReadFile(folder + "/" + name + ".json")
	if err != nil {
		panic("houseevent: " + err.Error())
	}
	return text
}

// Types returns all types, those of an organization before those of operators. The caller must not change the texts.
func Types() []Type { return slices.Clone(types) }

// Find returns the type of a name.
func Find(name string) (t Type, found bool) {
	i := slices.IndexFunc(types, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return Type{}, false
	}
	return types[i], true
}
