package redisdb_test

import (
	"testing"

	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestKeyIsInjectiveGrowsLinearly(t *testing.T) {
	c := redisdb.Client{Prefix: "p"}
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _ = c.Key(text, text) })...)
}
