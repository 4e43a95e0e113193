package main

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	ingress = switches(1 << 0)
	otel    = switches(1 << 1)
)

// merged returns the template of an object of which each combination has the given form; "" means that it has none.
func merged(t *testing.T, forms map[switches]string) (string, error) {
	t.Helper()
	var builds [][]*yaml.Node
	var of []switches
	for s, form := range forms {
		objects, err := decode([]byte(form))
		if err != nil {
			t.Fatal(err)
		}
		builds, of = append(builds, objects), append(of, s)
	}
	objects, err := mergeObjects(builds, of)
	if err != nil {
		return "", err
	}
	var w writer
	for _, o := range objects {
		w.object(o)
	}
	return w.String(), w.err
}

func TestMerge(t *testing.T) {
	const head = "kind: K\nmetadata: {name: n}\n"
	for name, c := range map[string]struct {
		forms map[switches]string
		want  string // behind the name, of the whole template
	}{
		"nothing differs": {
			map[switches]string{0: head + "spec: {b: 1, a: \"2\"}", ingress: head + "spec: {b: 1, a: \"2\"}"},
			"spec:\n  a: \"2\"\n  b: 1\n",
		},
		"a field of a switch": {
			map[switches]string{0: head + "spec: {a: 1}", ingress: head + "spec: {a: 1, b: x}"},
			"spec:\n  a: 1\n  {{- if .Values.components.ingress }}\n  b: x\n  {{- end }}\n",
		},
		"a value of a switch": {
			map[switches]string{0: head + "spec: x", ingress: head + "spec: y"},
			"{{- if not .Values.components.ingress }}\nspec: x\n{{- end }}\n{{- if .Values.components.ingress }}\nspec: y\n{{- end }}\n",
		},
		"items keep the order of every build": {
			map[switches]string{0: head + "spec: [a, c]", ingress: head + "spec: [a, b, c]", otel: head + "spec: [a, c, d]", ingress | otel: head + "spec: [a, b, c, d]"},
			"spec:\n  - a\n  {{- if .Values.components.ingress }}\n  - b\n  {{- end }}\n  - c\n  {{- if .Values.components.otel }}\n  - d\n  {{- end }}\n",
		},
		"both switches": {
			map[switches]string{0: head + "spec: {a: 1}", ingress: head + "spec: {a: 1}", otel: head + "spec: {a: 1}", ingress | otel: head + "spec: {a: 1, b: 2}"},
			"spec:\n  a: 1\n  {{- if and .Values.components.ingress .Values.components.otel }}\n  b: 2\n  {{- end }}\n",
		},
		"one test for parts in a row": {
			map[switches]string{0: head + "spec: [{k: 1}, {k: 2}]", ingress: head + "spec: [{k: 1}, {k: 2}, {k: 3}, {k: 4}]"},
			"spec:\n  - k: 1\n  - k: 2\n  {{- if .Values.components.ingress }}\n  - k: 3\n  - k: 4\n  {{- end }}\n",
		},
		"braces are text": {
			map[switches]string{0: head + "spec: 'a {{ $b }}'", ingress: head + "spec: 'a {{ $b }}'"},
			"spec: 'a {{ \"{{\" }} $b }}'\n",
		},
		"lines and what is empty": {
			map[switches]string{0: head + "spec:\n  a: |\n    x\n    y\n  b: []\n  c: {}", ingress: head + "spec:\n  a: |\n    x\n    y\n  b: []\n  c: {}"},
			"spec:\n  a: |\n    x\n    y\n  b: []\n  c: {}\n",
		},
	} {
		got, err := merged(t, c.forms)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, rest, _ := strings.Cut(got, "  name: n\n"); rest != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, rest, c.want)
		}
	}
}

// What a template can't say is an error of the program, not a chart that says something else.
func TestMergeRefuses(t *testing.T) {
	const head = "kind: K\nmetadata: {name: n}\n"
	for name, c := range map[string]struct {
		forms map[switches]string
		want  string
	}{
		"another order": {map[switches]string{0: head + "spec: [a, b]", ingress: head + "spec: [b, a]"}, "spec: items have no order that all builds keep"},
		"an item twice": {map[switches]string{0: head + "spec: [a, a]", ingress: head + "spec: [a, a]"}, "twice"},
		"three switches": {
			map[switches]string{0: head, 1: head, 2: head, 4: head, 3: head, 5: head, 6: head, 7: head + "spec: 1"},
			"spec: no condition of two switches fits 1 of 8 combinations",
		},
	} {
		if _, err := merged(t, c.forms); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The combinations separate each condition of two switches from every other one that is tried before it.
func TestSamplesSeparateConditions(t *testing.T) {
	all := samples()
	for i, c := range candidates {
		var in []switches
		for _, s := range all {
			if c.holds(s) {
				in = append(in, s)
			}
		}
		found, err := fit(in, all)
		if err != nil {
			t.Fatal(err)
		}
		for s := switches(0); s < 1<<len(components); s++ {
			if s.possible() && found.holds(s) != c.holds(s) {
				t.Errorf("condition %d, %s, is taken for %s", i, c, found)
				break
			}
		}
	}
}
