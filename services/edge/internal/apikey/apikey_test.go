package apikey

import (
	"fmt"
)

func ExampleKey_May() {
	key := Key{Product: "ai", Grants: GrantsOf([]Permission{Read, "ai:files:write"})}
	fmt.Println(key.May(NewNeed([]string{"ai", "agents"}, Read, "ai:chat:invoke")))
	fmt.Println(key.May(NewNeed([]string{"ai"}, Write, "ai:files:write")))
	fmt.Println(key.May(NewNeed([]string{"webhooks"}, Write, "webhooks:events:write")))
	fmt.Println(key.May(NewNeed([]string{"ai"}, Write, "ai:batches:write")))
	fmt.Println(key.May(NewNeed([]string{"ai"}, "", "ai:approvals:decide")))
	// Output:
	// <nil>
	// <nil>
	// the product of this API key does not include this operation: it needs a key of product webhooks
	// this API key lacks the permission that this operation needs: ai:batches:write or write
	// this API key lacks the permission that this operation needs: ai:approvals:decide
}
