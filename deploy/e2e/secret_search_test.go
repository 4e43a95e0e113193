//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// knownSecrets are the secrets of the run. Every secret that a test or a stack creates is added to this list; after the
// tests, everything that the stacks have stored, logged and answered is searched for it. See [harness.close].
var knownSecrets = secretList{}

// secretOrganization is an organization with a signing secret of its own instead of the default one.
const secretOrganization = "org_with_a_secret"

var (
	runSecret          = rand.Text()
	organizationSecret = "canary-org-secret-" + runSecret
)

// secretList holds texts that must not appear anywhere, each with a description.
type secretList struct {
	mu       sync.Mutex
	byPrefix map[uint64][]secret
	prefixes [1 << 16]bool // whether a secret begins with these two bytes
}

type secret struct {
	what string
	text []byte
}

// minSecret is the minimum length of a secret, in bytes, and the length of the prefix by which it is found.
const minSecret = 8

// add adds a secret in each form in which it may appear.
func (l *secretList) add(what, text string) {
	l.addForm(what, []byte(text))
	l.addForm(what+" in hexadecimal", fmt.Appendf(nil, "%x", text)) // as Postgres shows bytes
	if _, bare, ok := strings.Cut(text, "whsec_"); ok {
		l.add(what+" without its prefix", bare)
	}
	for _, decode := range []func(string) ([]byte, error){
		base64.StdEncoding.DecodeString, base64.RawURLEncoding.DecodeString, hex.DecodeString,
	} {
		if raw, err := decode(text); err == nil && len(raw) > minSecret {
			l.addForm(what+" decoded", fmt.Appendf(nil, "%x", raw))
		}
	}
}

func (l *secretList) addForm(what string, text []byte) {
	if len(text) < minSecret {
		panic("e2e: " + what + " is too short to be searched for")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := binary.LittleEndian.Uint64(text)
	same := func(s secret) bool { return s.what == what && bytes.Equal(s.text, text) }
	if slices.ContainsFunc(l.byPrefix[key], same) {
		return
	}
	if l.byPrefix == nil {
		l.byPrefix = map[uint64][]secret{}
	}
	l.byPrefix[key] = append(l.byPrefix[key], secret{what, text})
	l.prefixes[binary.LittleEndian.Uint16(text)] = true
}

// in returns the descriptions of the secrets that a text holds.
func (l *secretList) in(text []byte) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[string]bool{}
	for i := 0; i+minSecret <= len(text); i++ {
		if !l.prefixes[binary.LittleEndian.Uint16(text[i:])] {
			continue
		}
		for _, s := range l.byPrefix[binary.LittleEndian.Uint64(text[i:])] {
			if bytes.HasPrefix(text[i:], s.text) {
				found[s.what] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// leaks returns an error for each secret in the text of a place. There are no exceptions: what a service must keep is
// sealed or hashed.
func (l *secretList) leaks(place string, text []byte) (errs []error) {
	for _, what := range l.in(text) {
		errs = append(errs, fmt.Errorf("%s is in %s", what, place))
	}
	return errs
}

// addStackSecrets adds the secrets that the stack has created and those that the tests configured to knownSecrets.
func (h *harness) addStackSecrets() error {
	for _, v := range h.vendors {
		knownSecrets.add("the key of provider "+v.name, v.key())
	}
	knownSecrets.add("an organization's signing secret", organizationSecret)
	if password, err := os.ReadFile(filepath.Join(h.State(), "postgres", "password")); err == nil { // a server that was there before has no such file
		knownSecrets.add("the password of Postgres' administrator", strings.TrimSpace(string(password)))
	}
	folder := filepath.Join(h.State(), "secrets")
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		// Hashes of tokens and certificates are not secret, and of a URL only the password is.
		public := slices.Contains([]string{".yaml", ".url", ".pem"}, filepath.Ext(path)) || entry.Name() == "redis-url"
		if err != nil || entry.IsDir() || public {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line) // the line of a sealing key begins with its kind
			if pemBoundary := strings.HasPrefix(line, "-----"); !pemBoundary {
				knownSecrets.add("the content of "+entry.Name(), words[len(words)-1])
			}
		}
		return nil
	})
}

// leaksInStores searches every row of Postgres and every key of Redis for secrets.
func (h *harness) leaksInStores(ctx context.Context, list *secretList) error {
	found := map[string]error{} // each error once
	search := func(place, text string) {
		for _, err := range list.leaks(place, []byte(text)) {
			found[err.Error()] = err
		}
	}
	errs := []error{h.eachRow(ctx, search), h.eachKey(ctx, search)}
	for _, text := range slices.Sorted(maps.Keys(found)) {
		errs = append(errs, found[text])
	}
	return errors.Join(errs...)
}

// eachRow calls visit with every row, as text, of every table of the services. The place is the table's name.
func (h *harness) eachRow(ctx context.Context, visit func(place, text string)) error {
	db, err := pgx.Connect(ctx, h.DatabaseURL())
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	rows, err := db.Query(ctx, `SELECT format('%I.%I', nspname, relname) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
		WHERE relkind IN ('r', 'm') AND nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'`)
	if err != nil {
		return err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(tables) == 0 {
		err = errors.New("there is no table to search")
	}
	if err != nil {
		return err
	}
	for _, table := range tables {
		rows, err := db.Query(ctx, "SELECT r::text FROM "+table+" r")
		if err != nil {
			return err
		}
		var text string
		if _, err := pgx.ForEachRow(rows, []any{&text}, func() error { visit(table, text); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// eachKey calls visit with every key of Redis and its value.
func (h *harness) eachKey(ctx context.Context, visit func(place, text string)) error {
	options, err := redis.ParseURL(h.RedisURL())
	if err != nil {
		return err
	}
	db := redis.NewClient(options)
	defer db.Close()
	keys := db.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		name := keys.Val()
		var value any
		switch db.Type(ctx, name).Val() {
		case "string":
			value = db.Get(ctx, name).Val()
		case "hash":
			value = db.HGetAll(ctx, name).Val()
		case "list":
			value = db.LRange(ctx, name, 0, -1).Val()
		case "set":
			value = db.SMembers(ctx, name).Val()
		case "zset":
			value = db.ZRange(ctx, name, 0, -1).Val()
		case "stream":
			value = db.XRange(ctx, name, "-", "+").Val()
		}
		visit("Redis "+name, fmt.Sprintln(name, value))
	}
	return keys.Err()
}

// rowsOf returns every row of the services, as text.
func (h *harness) rowsOf(t *testing.T) string { t.Helper(); return all(t, h.eachRow) }

// keysOf returns every key of Redis with its value.
func (h *harness) keysOf(t *testing.T) string { t.Helper(); return all(t, h.eachKey) }

func all(t *testing.T, each func(context.Context, func(place, text string)) error) string {
	t.Helper()
	var text strings.Builder
	if err := each(t.Context(), func(_, row string) { text.WriteString(row + "\n") }); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// leaksInFiles searches the logs of every process of the stack, stores included, and the files in the spools.
func (h *harness) leaksInFiles(list *secretList) error {
	logs, err := filepath.Glob(filepath.Join(h.logs(), "*"))
	if err == nil && len(logs) == 0 {
		err = errors.New("there is no log to search in " + h.logs())
	}
	errs := []error{err}
	search := func(path string) {
		text, err := os.ReadFile(path)
		place, _ := filepath.Rel(h.State(), path)
		errs = append(append(errs, err), list.leaks(place, text)...)
	}
	for _, log := range append(logs, filepath.Join(h.State(), "postgres", "log"), filepath.Join(h.State(), "redis", "log")) {
		search(log)
	}
	err = filepath.WalkDir(filepath.Join(h.State(), "spool"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			search(path)
		}
		return err
	})
	return errors.Join(append(errs, err)...)
}

// answerLog records the answers of the stacks.
type answerLog struct {
	mu  sync.Mutex
	all []answer
}

var responses answerLog

func (l *answerLog) add(a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, a)
}

func (l *answerLog) leaks() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, a := range l.all {
		var head bytes.Buffer
		_ = a.header.Write(&head)
		errs = append(errs, knownSecrets.leaks("the answer to "+a.label, append(head.Bytes(), a.body...))...)
	}
	return errors.Join(errs...)
}

// The search must be able to fail: it finds a secret that is planted in each place.
func TestSecretSearchFindsALeak(t *testing.T) {
	t.Parallel()
	h := use(t)
	var list secretList
	const what = "the planted secret"
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("planted "+runSecret))
	list.add(what, secret)
	search := func() string {
		return fmt.Sprint(errors.Join(h.leaksInStores(t.Context(), &list), h.leaksInFiles(&list)))
	}
	if found := search(); found != "<nil>" {
		t.Fatalf("before it was planted: %s", found)
	}
	places := h.plant(t, secret)
	found := search()
	for _, place := range places {
		if !strings.Contains(found, what) || !strings.Contains(found, " is in "+place) {
			t.Errorf("it is in %s, and was not found there: %s", place, found)
		}
	}
}

// plant writes a secret to each place that is searched, until the end of the test, and returns the places.
func (h *harness) plant(t *testing.T, secret string) (places []string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := pgx.Connect(ctx, h.DatabaseURL())
	must(err)
	_, err = db.Exec(ctx, fmt.Sprintf(`CREATE SCHEMA planted;
		CREATE TABLE planted.as_text AS SELECT 1 AS n, %[1]s AS v;
		CREATE TABLE planted.as_bytes AS SELECT convert_to('before ' || %[1]s || ' after', 'UTF8') AS v;
		CREATE TABLE planted.as_json AS SELECT jsonb_build_object('headers', jsonb_build_array(%[1]s)) AS v`, "'"+secret+"'::text"))
	must(err)
	options, err := redis.ParseURL(h.RedisURL())
	must(err)
	keys := redis.NewClient(options)
	must(errors.Join(keys.Set(ctx, "planted:value", secret, 0).Err(), keys.HSet(ctx, "planted:hash", "field", secret).Err(), keys.Set(ctx, "planted:"+secret, 1, 0).Err()))
	files := []string{filepath.Join("log", "planted.log"), filepath.Join("spool", "planted")}
	for _, file := range files {
		must(os.WriteFile(filepath.Join(h.State(), file), []byte(`{"msg":"`+secret+`"}`), 0o600))
	}
	t.Cleanup(func() {
		_, err := db.Exec(ctx, "DROP SCHEMA planted CASCADE")
		errs := []error{err, db.Close(ctx), keys.Del(ctx, "planted:value", "planted:hash", "planted:"+secret).Err(), keys.Close()}
		for _, file := range files {
			errs = append(errs, os.Remove(filepath.Join(h.State(), file)))
		}
		must(errors.Join(errs...))
	})
	return append(files, "planted.as_text", "planted.as_bytes", "planted.as_json", "Redis planted:value", "Redis planted:hash", "Redis planted:whsec_")
}
