package apikey

import (
	"fmt"
)

func ExampleKey_May() {
	key := Key{Product: "ai", Permissions: []Permission{Read}}
	fmt.Println(key.May([]string{"ai", "agents"}, Read))
	fmt.Println(key.May([]string{"webhooks"}, Write))
	fmt.Println(key.May([]string{"ai"}, Write))
	// Output:
	// <nil>
	// the product of this API key does not include this operation
	// this API key lacks the permission that this operation needs
}
