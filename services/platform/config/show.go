package config

import (
	"encoding"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"regexp"
	"strings"
)

// Print writes the effective configuration, one VAR=value per line in the order of the fields. Secrets and the user
// information of URLs are redacted; paths of secret files are printed.
func Print(w io.Writer, prefix string, cfg any) error {
	var b strings.Builder
	for _, s := range settings(prefix, cfg) {
		fmt.Fprintf(&b, "%s=%s\n", s.name, userinfo.ReplaceAllString(text(s.value), "://[redacted]@"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Table returns the Markdown reference of cfg's settings for the service's README. It uses their tags only.
func Table(prefix string, cfg any) string {
	var b strings.Builder
	b.WriteString("| Setting | Default | Meaning |\n| --- | --- | --- |\n")
	for _, s := range settings(prefix, cfg) {
		fallback := ""
		switch {
		case s.required:
			fallback = "required"
		case s.when != "":
			fallback = "required " + s.when
		case s.fallback != "":
			fallback = "`" + s.fallback + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.name, cell.Replace(fallback), cell.Replace(s.doc))
	}
	return b.String()
}

// userinfo matches everything up to the last @, since a password may contain any other character unescaped by mistake.
var userinfo = regexp.MustCompile(`://.*@`)

var cell = strings.NewReplacer("|", `\|`, "\n", " ")

// text returns a value in the form of its variable.
func text(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		return text(v.Elem())
	}
	switch value := v.Interface().(type) {
	case url.URL:
		return value.String()
	case encoding.TextMarshaler:
		if b, err := value.MarshalText(); err == nil {
			return string(b)
		}
	case fmt.Stringer:
		return value.String()
	}
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(v.Interface())
	}
	items := make([]string, v.Len())
	for i := range items {
		items[i] = text(v.Index(i))
	}
	return strings.Join(items, ",")
}
