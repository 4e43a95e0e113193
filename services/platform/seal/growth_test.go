package seal_test

import (
	"strings"
	"testing"

	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestSealGrowsLinearly(t *testing.T) {
	box := open(t, hexKey, "notify")
	rows := growth.Each(growth.Text, func(text []byte) { _ = box.Seal(text, "id-1") })
	rows = append(rows, growth.Row{Name: "an owner", Make: func(n int) func() {
		owner := strings.Repeat("x", n)
		return func() { _ = box.Seal([]byte("a"), owner) }
	}})
	growth.Linear(t, rows...)
}

func TestOpenGrowsLinearly(t *testing.T) {
	box := open(t, hexKey, "notify")
	rows := growth.Each(growth.Text, func(text []byte) { _, _ = box.Open(text, "id-1") })
	rows = append(rows, growth.Row{Name: "a sealed text", Make: func(n int) func() {
		sealed := box.Seal(make([]byte, n), "id-1")
		return func() {
			if _, err := box.Open(sealed, "id-1"); err != nil {
				t.Fatal(err)
			}
		}
	}})
	growth.Linear(t, rows...)
}

func TestKeyGrowsLinearly(t *testing.T) {
	inputs := append([]growth.Input{
		growth.Repeat("hex", "", "00", ""), growth.Repeat("base64", "", "AAAA", ""), growth.Repeat("spaces", "", " ", ""),
	}, growth.Text...)
	growth.Linear(t, growth.Each(inputs, func(text []byte) { _, _ = seal.New(secret.New(string(text)), "notify") })...)
}
