package stack

import (
	"os"
	"path/filepath"
	"testing"

	"switchyard.dev/deploy/dev/devtest"
	"switchyard.dev/deploy/dev/store"
)

// clusterNumber returns the number that Postgres gives each cluster it makes, which its copies keep, as a service reads it.
func clusterNumber(t *testing.T, s *Stack) (number int64) {
	t.Helper()
	conn := connect(t, read(t, s.vault.path(databaseURL(Gateway))))
	if err := conn.QueryRow(t.Context(), "SELECT system_identifier FROM pg_control_system()").Scan(&number); err != nil {
		t.Fatal(err)
	}
	return number
}

// Stacks of a template have copies of its databases and secrets of their own. A stack that has databases keeps them.
func TestTemplate(t *testing.T) {
	template, own := options(t), options(t)
	if err := Migrate(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	old := startStack(t, own)
	ownNumber := clusterNumber(t, old)
	devtest.Stop(t, waitTimeout, old.Stop)
	own.Template = template.State
	if got := clusterNumber(t, startStack(t, own)); got != ownNumber {
		t.Errorf("the stack's own cluster %d was replaced by %d", ownNumber, got)
	}

	var copies []*Stack
	for range 2 {
		o := options(t)
		o.Template = template.State
		copies = append(copies, startStack(t, o))
	}
	a, b := copies[0], copies[1]
	if a, b := clusterNumber(t, a), clusterNumber(t, b); a != b || a == ownNumber {
		t.Errorf("the stacks of the template have the clusters %d and %d", a, b)
	}
	if a.Secrets().Service == b.Secrets().Service {
		t.Error("the stacks of the template have the same service token")
	}
}

// Where Postgres can't enter the state folder, its data is elsewhere and goes with the template's stop: the passwords alone
// are copied, and the databases are made with them.
func TestTemplateWithoutDatabases(t *testing.T) {
	template, o := options(t), options(t)
	if err := Migrate(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(template.State, store.Postgres)); err != nil {
		t.Fatal(err)
	}
	o.Template = template.State
	s := startStack(t, o)
	clusterNumber(t, s)
	password := filepath.Join(secretsFolder, databasePassword(Gateway))
	if read(t, filepath.Join(o.State, password)) != read(t, filepath.Join(template.State, password)) {
		t.Error("the password is not the template's")
	}
}
