package testkit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/platform/pgdb"
)

const (
	// templatePrefix begins the names of all templates. The day follows it, because migrations create partitions from
	// the day on which they are applied.
	templatePrefix = "switchyard_template_"
	// templateSchema is the schema of a template and of its copies.
	templateSchema = "test"
)

// copyOfTemplate returns the URL of the test's own database with the migrations applied. Copying a template takes a
// fraction of the time of migrating.
func copyOfTemplate(tb testing.TB, server string, migrations fs.FS) string {
	tb.Helper()
	name := templateOf(time.Now()) + "_" + digest(tb, migrations)
	own := "t_" + strings.ToLower(rand.Text())
	if err := admin.use(tb.Context(), server, func(conn *pgx.Conn) error {
		if err := ensureTemplate(tb.Context(), conn, server, name, migrations); err != nil {
			return fmt.Errorf("its template: %w", err)
		}
		return copyDatabase(tb.Context(), conn, name, own)
	}); err != nil {
		tb.Fatalf("the test's database: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), cleanupTimeout)
		defer cancel()
		execute(ctx, tb, server, "DROP DATABASE "+own+" WITH (FORCE)")
	})
	return databaseURL(server, own)
}

// fileCopy is the first Postgres release that must be asked to copy the files of a template, as those before it do. What
// it does by default, to log each page, takes twice the processor time.
const fileCopy = 15

// copyDatabase creates a database as a copy of a template.
func copyDatabase(ctx context.Context, conn *pgx.Conn, template, name string) error {
	statement := "CREATE DATABASE " + name + " TEMPLATE " + template
	if release(conn.PgConn().ParameterStatus("server_version")) >= fileCopy {
		statement += " STRATEGY FILE_COPY"
	}
	return statements(ctx, conn, statement)
}

// release returns the number of a server's release, of "15.18 (Debian 15.18-0+deb12u1)", "14beta1" or the like; 0 for
// another text.
func release(version string) int {
	digits := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(version)
	}
	number, err := strconv.Atoi(version[:digits])
	if err != nil {
		return 0
	}
	return number
}

// templateOf returns the beginning of the names of a day's templates.
func templateOf(day time.Time) string { return templatePrefix + day.UTC().Format("20060102") }

// digest returns a hash of the migrations' names and texts.
func digest(tb testing.TB, migrations fs.FS) string {
	tb.Helper()
	sum := sha256.New()
	err := fs.WalkDir(migrations, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(migrations, name)
		_, _ = io.WriteString(sum, name+"\x00"+string(text)+"\x00") // a hash never returns an error
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// ensureTemplate creates the template if it doesn't exist. Other processes may do the same concurrently.
func ensureTemplate(ctx context.Context, conn *pgx.Conn, server, name string, migrations fs.FS) (err error) {
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", templatePrefix); err != nil {
		return err
	}
	defer func() {
		_, unlocked := conn.Exec(ctx, "SELECT pg_advisory_unlock(hashtext($1))", templatePrefix)
		err = errors.Join(err, unlocked)
	}()
	var made bool
	const whole = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND NOT datallowconn)"
	if err := conn.QueryRow(ctx, whole, name).Scan(&made); err != nil || made {
		return err
	}
	if err := statements(ctx, conn, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)", "CREATE DATABASE "+name); err != nil {
		return err
	}
	if err := errors.Join(dropOld(ctx, conn), fill(ctx, databaseURL(server, name), migrations)); err != nil {
		return err
	}
	// A database with open connections can't be copied.
	return statements(ctx, conn, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
}

// dropOld drops the templates from before yesterday, which a long-running server would accumulate.
func dropOld(ctx context.Context, conn *pgx.Conn) error {
	const old = "SELECT datname FROM pg_database WHERE starts_with(datname, $1) AND datname < $2"
	rows, err := conn.Query(ctx, old, templatePrefix, templateOf(time.Now().AddDate(0, 0, -1)))
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for i, name := range names {
		names[i] = "DROP DATABASE IF EXISTS " + name
	}
	return errors.Join(err, statements(ctx, conn, names...))
}

// fill creates the schema in a new database and applies the migrations.
func fill(ctx context.Context, database string, migrations fs.FS) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	if err := errors.Join(statements(ctx, conn, "CREATE SCHEMA "+templateSchema), conn.Close(ctx)); err != nil {
		return err
	}
	_, err = pgdb.Migrate(ctx, database, migrations, slog.New(slog.DiscardHandler))
	return err
}

func statements(ctx context.Context, conn *pgx.Conn, all ...string) error {
	for _, statement := range all {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// databaseURL returns the URL of a copy of a template, or of the template itself.
func databaseURL(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server // Connecting returns the error.
	}
	u.Path = "/" + name
	q := u.Query()
	q.Set("search_path", templateSchema)
	u.RawQuery = q.Encode()
	return u.String()
}
