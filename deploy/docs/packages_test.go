package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree writes Go files below a new folder. A file is given by its path, its package comment and what it imports.
func tree(t *testing.T, files map[string][]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop")
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/shop\n")
	for name, comment := range files {
		pkg := filepath.Base(filepath.Dir(name))
		text := "// Package " + pkg + " " + comment[0] + "\npackage " + pkg + "\n"
		for _, imported := range comment[1:] {
			text += "import _ \"example.com/shop/internal/" + imported + "\"\n"
		}
		write("internal/"+name, text)
	}
	return dir
}

func TestPackageMapOfDistricts(t *testing.T) {
	dir := tree(t, map[string][]string{
		"money/doc.go":             {"owns what things cost. It has a second sentence."},
		"money/price/price.go":     {"knows the prices."},
		"money/ledger/ledger.go":   {"records sales. It never forgets.", "money/price"},
		"policy/policy.go":         {"says what may be sold."},
		"sale/doc.go":              {"sells."},
		"sale/order/order.go":      {"takes orders.", "money/ledger", "policy"},
		"postgres/postgres.go":     {"stores sales.", "money/ledger"},
		"postgres/dbsql/db.go":     {"is generated."},
		"app/app.go":               {"puts the shop together.", "postgres", "sale/order"},
		"sale/ordertest/helper.go": {"makes orders.", "sale/order"},
	})
	got, err := packageMap(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ = strings.Cut(got, "above it.\n")
	const want = `
## money

Owns what things cost.

- [price](../internal/money/price) knows the prices.
- [ledger](../internal/money/ledger) records sales. Builds on ` + "`money/price`" + `.

## policy

- [policy](../internal/policy) says what may be sold.

## sale

Sells.

- [order](../internal/sale/order) takes orders. Builds on ` + "`money/ledger`, `policy`" + `.

## postgres, app

- [postgres](../internal/postgres) stores sales. Builds on ` + "`money/ledger`" + `.
- [app](../internal/app) puts the shop together. Builds on ` + "`postgres`, `sale/order`" + `.

## For tests

- [sale/ordertest](../internal/sale/ordertest) makes orders. Builds on ` + "`sale/order`" + `.
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("map (-want +got):\n%s", diff)
	}
}

func TestPackageMapWithoutDistricts(t *testing.T) {
	dir := tree(t, map[string][]string{
		"order/order.go": {"takes orders.", "price"},
		"price/price.go": {"knows the prices, and has a comment that is longer than one line of the documents may be, so that it breaks."},
	})
	got, err := packageMap(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ = strings.Cut(got, "above it.\n")
	const want = `
- [price](../internal/price) knows the prices, and has a comment that is longer than one line of the documents may be,
  so that it breaks.
- [order](../internal/order) takes orders. Builds on ` + "`price`" + `.
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("map (-want +got):\n%s", diff)
	}
}

func TestPackageMapKeepsFoldersTogether(t *testing.T) {
	dir := tree(t, map[string][]string{
		"sale/sale.go":           {"sells.", "price"},
		"sale/online/online.go":  {"sells online.", "sale"},
		"price/price.go":         {"knows the prices.", "price/tariff"},
		"price/tariff/tariff.go": {"has the tariffs."},
	})
	got, err := packageMap(dir)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, found := range regexp.MustCompile(`- \[(.*?)\]`).FindAllStringSubmatch(got, -1) {
		order = append(order, found[1])
	}
	if diff := cmp.Diff([]string{"price/tariff", "price", "sale", "sale/online"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestPackageMapRefusesFoldersThatImportEachOther(t *testing.T) {
	dir := tree(t, map[string][]string{
		"money/doc.go":       {"owns what things cost."},
		"money/a/a.go":       {"is a.", "sale/b"},
		"sale/doc.go":        {"sells."},
		"sale/b/b.go":        {"is b."},
		"sale/order/soft.go": {"is c.", "money/a"},
	})
	if _, err := packageMap(dir); err == nil || !strings.Contains(err.Error(), "imports") {
		t.Errorf("error %v, want one that names the import", err)
	}
}

func TestPackageMapNeedsComments(t *testing.T) {
	dir := tree(t, map[string][]string{"order/order.go": {""}})
	if err := os.WriteFile(filepath.Join(dir, "internal/order/order.go"), []byte("package order\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := packageMap(dir); err == nil || !strings.Contains(err.Error(), "order has no package comment") {
		t.Errorf("error %v, want one that names package order", err)
	}
}
