package tag

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

// most returns n tags.
func most(n int) map[string]string {
	tags := make(map[string]string, n)
	for i := range n {
		tags[fmt.Sprint("tag-", i)] = "v"
	}
	return tags
}

func TestOf(t *testing.T) {
	tests := map[string]struct {
		header string
		field  map[string]string
		want   map[string]string
	}{
		"none":              {},
		"field":             {field: map[string]string{"team": "web ünï 🙂"}, want: map[string]string{"team": "web ünï 🙂"}},
		"header":            {header: "team=web,feature=search", want: map[string]string{"team": "web", "feature": "search"}},
		"white space":       {header: " team = web ,\tfeature=search\t", want: map[string]string{"team": "web", "feature": "search"}},
		"encoded":           {header: "team=web%20%C3%BC%2C%3B%22%5C%25", want: map[string]string{"team": `web ü,;"\%`}},
		"plus":              {header: "team=a+b", want: map[string]string{"team": "a+b"}},
		"equals in a value": {header: "team=a=b", want: map[string]string{"team": "a=b"}},
		"both the same":     {header: "b=2,a=1", field: map[string]string{"a": "1", "b": "2"}, want: map[string]string{"a": "1", "b": "2"}},
		"ten":               {field: most(10), want: most(10)},
		"longest": {
			header: strings.Repeat("n", 64) + "=" + strings.Repeat("%F0%9F%99%82", 128),
			want:   map[string]string{strings.Repeat("n", 64): strings.Repeat("🙂", 128)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Of(tt.header, tt.field)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestOfRefuses(t *testing.T) {
	const secret = "sk-ant-api03-aB3dE6gH9jaB3dE6gH9jaB3dE6gH9j"
	tests := map[string]struct {
		header string
		field  map[string]string
		text   string
	}{
		"eleven":               {field: most(11), text: "tags: must have at most 10"},
		"eleven in the header": {header: "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1", text: "X-Switchyard-Tags: must have at most 10"},
		"no name":              {field: map[string]string{"": "v"}, text: "tags: a name"},
		"long name":            {field: map[string]string{strings.Repeat("n", 65): "v"}, text: "tags: a name"},
		"capital":              {field: map[string]string{"Team": "v"}, text: "tags: a name"},
		"no value":             {field: map[string]string{"team": ""}, text: "tags: a value"},
		"long value":           {field: map[string]string{"team": strings.Repeat("ü", 129)}, text: "tags: a value"},
		"line break":           {field: map[string]string{"team": "a\nb"}, text: "tags: a value"},
		"zero byte":            {header: "team=a%00", text: "X-Switchyard-Tags: a value"},
		"no UTF-8":             {header: "team=%FF", text: "X-Switchyard-Tags: a value"},
		"half an escape":       {header: "team=%F", text: "X-Switchyard-Tags: must be name=value"},
		"no equals":            {header: "team", text: "X-Switchyard-Tags: must be name=value"},
		"empty member":         {header: "team=web,", text: "X-Switchyard-Tags: must be name=value"},
		"property":             {header: "team=web;p=1", text: "X-Switchyard-Tags: must be name=value"},
		"space in a value":     {header: "team=a b", text: "X-Switchyard-Tags: must be name=value"},
		"twice":                {header: "team=a,team=a", text: "X-Switchyard-Tags: a name appears twice"},
		"large header":         {header: "team=" + strings.Repeat("x", maxHeader), text: "X-Switchyard-Tags: must have at most 20480 bytes"},
		"a key":                {field: map[string]string{"team": secret}, text: "tags: seems to hold a key"},
		"a key in the header":  {header: "team=" + secret, text: "X-Switchyard-Tags: seems to hold a key"},
		"different":            {header: "team=web", field: map[string]string{"team": "app"}, text: "tags: differs from the header"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Of(tt.header, tt.field)
			if err == nil {
				t.Fatalf("read as %v", got)
			}
			e := apierr.From(err)
			if e.Kind != apierr.KindInvalid || !strings.HasPrefix(e.Text, tt.text) || strings.Contains(e.Text, secret) {
				t.Errorf("%v, want %q", e, tt.text)
			}
		})
	}
}

func TestOfGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _, _ = Of(text, nil) })...)
}
