package stack

import (
	"os"
	"testing"

	"switchyard.dev/deploy/dev/devtest"
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

// A template whose databases were placed elsewhere, and are gone, changes nothing.
func TestTemplateWithoutDatabases(t *testing.T) {
	o := options(t)
	o.Template = t.TempDir()
	if err := os.Mkdir(o.Template+"/"+secretsFolder, 0o700); err != nil {
		t.Fatal(err)
	}
	clusterNumber(t, startStack(t, o))
}
