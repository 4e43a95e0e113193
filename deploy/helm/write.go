package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Words of inline text and of extra lines that stand for the columns to which what follows is indented: that of the text
// itself, and that of what is below it.
const (
	level  = "LEVEL"
	deeper = "DEEPER"
)

// A writer writes objects as a template.
type writer struct {
	bytes.Buffer
	err error
}

// object writes one object as a document.
func (w *writer) object(o *object) {
	test := ""
	switch {
	case len(o.extra) == 1 && o.when.always():
		test = o.extra[0]
	case len(o.extra) > 0 && o.when.always():
		test = "and " + strings.Join(o.extra, " ")
	case len(o.extra) > 0:
		test = "and (" + o.when.String() + ") " + strings.Join(o.extra, " ")
	case !o.when.always():
		test = o.when.String()
	}
	if test != "" {
		w.line(0, "{{- if "+test+" }}")
	}
	w.line(0, "---")
	w.fields(o.node, 0, "")
	if test != "" {
		w.line(0, "{{- end }}")
	}
}

func (w *writer) line(indent int, text string) {
	w.WriteString(strings.Repeat(" ", indent) + text + "\n")
}

// groups writes parts, those between one test and its end that need the same.
func (w *writer) groups(parts []part, indent int, write func(int, part)) {
	for i, p := range parts {
		same := func(j int) bool {
			return j >= 0 && j < len(parts) && parts[j].when.String() == p.when.String()
		}
		if !p.when.always() && !same(i-1) {
			w.line(indent, "{{- if "+p.when.String()+" }}")
		}
		write(i, p)
		if !p.when.always() && !same(i+1) {
			w.line(indent, "{{- end }}")
		}
	}
}

// fields writes the fields of a mapping. The first one has the mark of an item, if the mapping is one, so it has to be a
// field that is always there.
func (w *writer) fields(n *node, indent int, mark string) {
	fields := n.fields
	if mark != "" {
		for i, p := range fields {
			if p.when.always() {
				fields = append(append([]part{p}, fields[:i]...), fields[i+1:]...)
				break
			}
		}
		if len(fields) == 0 || !fields[0].when.always() {
			w.err = fmt.Errorf("an item has no field that is always there: %v", n.fields)
			return
		}
	}
	w.groups(fields, indent, func(i int, p part) {
		at, key := indent, p.key+":"
		if i == 0 && mark != "" {
			at, key = indent-2, mark+key
		}
		w.value(p.node, at, key, indent)
	})
	w.extra(n, indent)
}

func (w *writer) extra(n *node, indent int) {
	for _, text := range n.extra {
		w.line(indent, columns(text, indent))
	}
}

// columns puts the columns into a text that stands at one.
func columns(text string, indent int) string {
	text = strings.ReplaceAll(text, level, strconv.Itoa(indent))
	return strings.ReplaceAll(text, deeper, strconv.Itoa(indent+2))
}

// value writes a node behind its key. What is below it is indented from the column `from`.
func (w *writer) value(n *node, indent int, key string, from int) {
	switch {
	case n.inline != "":
		w.line(indent, key+" "+columns(n.inline, from))
	case n.scalar != nil:
		w.line(indent, key+" "+w.scalar(n.scalar, from))
	case n.items != nil:
		w.line(indent, key)
		w.itemsOf(n, from+2)
	default:
		w.line(indent, key)
		w.fields(n, from+2, "")
	}
}

func (w *writer) itemsOf(n *node, indent int) {
	w.groups(n.items, indent, func(_ int, p part) {
		switch item := p.node; {
		case item.inline != "" || item.scalar != nil:
			w.value(item, indent, "-", indent)
		case item.items != nil:
			w.err = errors.New("a sequence in a sequence")
		default:
			w.fields(item, indent+2, "- ")
		}
	})
	w.extra(n, indent)
}

// scalar returns a scalar, or an empty mapping or sequence, as YAML in a template. Further lines of it are indented.
func (w *writer) scalar(n *yaml.Node, from int) string {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(n); err != nil {
		w.err = err
	}
	all := strings.ReplaceAll(strings.TrimRight(text.String(), "\n"), "{{", `{{ "{{" }}`)
	return strings.ReplaceAll(all, "\n", "\n"+strings.Repeat(" ", from))
}
