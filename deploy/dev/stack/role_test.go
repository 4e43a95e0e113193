package stack

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/deploy/dev/store"
)

const waitTimeout = 30 * time.Second

// postgres starts a throwaway server and returns the administrator's URL.
func postgres(t *testing.T) string {
	t.Helper()
	dir, err := store.Temporary()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	stores, err := store.Start(t.Context(), store.Options{Dir: dir, Cache: t.TempDir()})
	if err != nil {
		t.Skipf("no Postgres: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitTimeout)
		defer cancel()
		if err := stores.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return stores.DatabaseURL
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func TestProvision(t *testing.T) {
	administrator := postgres(t)
	passwords := map[string]string{"gateway": "first-password-of-it", "webhook": "another-password"}
	urls, err := provision(t.Context(), administrator, passwords)
	if err != nil {
		t.Fatal(err)
	}
	gateway := connect(t, urls["gateway"])
	if _, err := gateway.Exec(t.Context(), "CREATE TABLE things (id int); INSERT INTO things VALUES (7)"); err != nil {
		t.Fatal(err)
	}

	t.Run("names are those of the role's schema", func(t *testing.T) {
		var schema string
		err := gateway.QueryRow(t.Context(), "SELECT schemaname FROM pg_tables WHERE tablename = 'things'").Scan(&schema)
		if err != nil || schema != "gateway" {
			t.Errorf("the table is in %q, %v", schema, err)
		}
	})
	t.Run("another role sees nothing of it", func(t *testing.T) {
		_, err := connect(t, urls["webhook"]).Exec(t.Context(), "SELECT * FROM gateway.things")
		if err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("got %v, want permission denied", err)
		}
	})
	t.Run("again changes nothing", func(t *testing.T) {
		again, err := provision(t.Context(), administrator, passwords)
		if err != nil {
			t.Fatal(err)
		}
		if again["gateway"] != urls["gateway"] {
			t.Error("another URL")
		}
		var id int
		err = connect(t, again["gateway"]).QueryRow(t.Context(), "SELECT id FROM things").Scan(&id)
		if err != nil || id != 7 {
			t.Errorf("the row is %d, %v", id, err)
		}
	})
	t.Run("another password", func(t *testing.T) {
		changed, err := provision(t.Context(), administrator, map[string]string{"gateway": "second-password"})
		if err != nil {
			t.Fatal(err)
		}
		connect(t, changed["gateway"])
		if conn, err := pgx.Connect(t.Context(), urls["gateway"]); err == nil {
			_ = conn.Close(t.Context())
			t.Error("the old password still works")
		}
	})
	t.Run("the server never sees a password", func(t *testing.T) {
		_, err := connect(t, administrator).Exec(t.Context(), roleSQL("gateway", "SCRAM-SHA-256$bad")+"SELECT nonsense")
		if err == nil {
			t.Fatal("nonsense was accepted")
		}
		verifier, err := scramVerifier("first-password-of-it")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(roleSQL("gateway", verifier), "first-password-of-it") {
			t.Error("the statement holds the password")
		}
	})
}

func TestProvisionByAnAdministratorWhoIsNoSuperuser(t *testing.T) {
	superuser := postgres(t)
	conn := connect(t, superuser)
	for _, statement := range []string{
		"CREATE ROLE boss LOGIN CREATEROLE PASSWORD 'boss-password'",
		"CREATE DATABASE company OWNER boss",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	boss, err := urlFor(strings.Replace(superuser, "/postgres?", "/company?", 1), "boss", "boss-password")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		urls, err := provision(t.Context(), boss, map[string]string{"notify": "a-password"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := connect(t, urls["notify"]).Exec(t.Context(), "CREATE TABLE IF NOT EXISTS things ()"); err != nil {
			t.Error(err)
		}
	}
}

func TestURLFor(t *testing.T) {
	got, err := urlFor("postgres://admin:a%2Fb@db.example:5433/company?sslmode=require", "notify", "p/w")
	if want := "postgres://notify:p%2Fw@db.example:5433/company?sslmode=require"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := urlFor("host=db user=admin password=hunter2", "notify", "x"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a keyword string: %v", err)
	}
}
