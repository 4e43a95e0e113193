package stack

import "fmt"

// exportsYAML returns the settings of the exports of usage to the fake billing systems at a URL. Another process takes
// over after a second.
func exportsYAML(billing string) string {
	const destination = "  - {name: %s, kind: %s, base_url: %q, key_file: %s, meters: {llm_requests: calls, deliveries: deliveries, %s}}\n"
	return "every: 500ms\nlease: 1s\ndestinations:\n" +
		fmt.Sprintf(destination, "stripe", "stripe-stream, stream_url: "+billing, billing, billingKey, "ledger.cost_pico_usd: cost") +
		fmt.Sprintf(destination, "openmeter", "openmeter", billing, billingKey, "ledger.total_tokens: tokens, ledger.cost_cents: cost") +
		fmt.Sprintf(destination, "lago", "lago", billing, billingKey, "ledger.cost_cents: cost")
}
