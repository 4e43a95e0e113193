package apikey

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// names returns n different names of a length that a character is repeated to.
func names(n, length int, fill string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%02d", i)+strings.Repeat(fill, length-2))
	}
	return all
}

func TestTermsCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		terms Terms
		want  string // how the error begins; empty for none
	}{
		"none":                {Terms{}, ""},
		"all":                 {Terms{1, []string{"gpt-5", "openai/gpt-5"}, Budget{1, PeriodTotal}, ClassStandard}, ""},
		"the largest":         {Terms{1 << 40, names(32, 256, "a"), Budget{1e12, PeriodDay}, ClassBulk}, ""},
		"negative tokens":     {Terms{TokensPerMinute: -1}, "tpm: must be from 1 to 1099511627776"},
		"too many tokens":     {Terms{TokensPerMinute: 1<<40 + 1}, "tpm: must be from 1 to 1099511627776"},
		"too many names":      {Terms{Models: names(33, 2, "")}, "models: must hold at most 32 names"},
		"an empty name":       {Terms{Models: []string{"a", ""}}, "models: a name must have 1 to 256"},
		"a long name":         {Terms{Models: names(1, 257, "a")}, "models: a name must have 1 to 256"},
		"a space":             {Terms{Models: []string{"a b"}}, "models: a name must have 1 to 256"},
		"not ASCII":           {Terms{Models: []string{"ü"}}, "models: a name must have 1 to 256"},
		"a line break":        {Terms{Models: []string{"a\r\nX-Key-Id: b"}}, "models: a name must have 1 to 256"},
		"a name twice":        {Terms{Models: []string{"a", "b", "a"}}, "models: must not hold a name twice"},
		"more than a header":  {Terms{Models: names(32, 256, `"`)}, "models: must have at most 15360 bytes"},
		"no ceiling":          {Terms{Budget: Budget{Period: PeriodDay}}, "budget.ceiling_cents: must be from 1"},
		"a negative ceiling":  {Terms{Budget: Budget{-1, PeriodDay}}, "budget.ceiling_cents: must be from 1"},
		"too high a ceiling":  {Terms{Budget: Budget{1e12 + 1, PeriodDay}}, "budget.ceiling_cents: must be from 1"},
		"no period":           {Terms{Budget: Budget{CeilingCents: 1}}, "budget.period: must be day, month or total"},
		"an unknown period":   {Terms{Budget: Budget{1, "week"}}, "budget.period: must be day, month or total"},
		"an unknown class":    {Terms{Class: "urgent"}, "class: must be interactive, standard or bulk"},
		"a class in capitals": {Terms{Class: "Bulk"}, "class: must be interactive, standard or bulk"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.terms.check()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("check = %v, want %q", err, tt.want)
			}
			if header := (&Key{ID: newID(), Terms: tt.terms}).termsHeader(); err == nil && len(header) > 16<<10 {
				t.Errorf("the header has %d bytes, want at most 16384", len(header))
			}
		})
	}
}

func TestParseBudget(t *testing.T) {
	for text, want := range map[string]Budget{
		"5000/month": {5000, PeriodMonth}, "1/day": {1, PeriodDay}, "1000000000000/total": {1e12, PeriodTotal},
		"": {}, "5000": {}, "/month": {}, "0/": {}, "0/month": {}, "5000/week": {}, "50.00/month": {}, "5000/month/2": {}, "-1/day": {},
	} {
		got, err := ParseBudget(text)
		if want == (Budget{}) && err == nil || want != (Budget{}) && (err != nil || got != want) {
			t.Errorf("ParseBudget(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestTermsHeader(t *testing.T) {
	all := Terms{100000, []string{"gpt-5"}, Budget{5000, PeriodMonth}, ClassInteractive}
	for name, tt := range map[string]struct {
		key  Key
		want string
	}{
		"none": {Key{ID: "key_1", Name: "n"}, ""},
		"all": {
			Key{ID: "key_1", Terms: all},
			`{"key":"key_1","tpm":100000,"models":["gpt-5"],"budget":{"ceiling_cents":5000,"period":"month"},"class":"interactive"}`,
		},
		"a successor counts with the first":   {Key{ID: "key_2", Origin: "key_1", Terms: Terms{TokensPerMinute: 7}}, `{"key":"key_1","tpm":7}`},
		"characters of HTML, quotes, slashes": {Key{ID: "k", Terms: Terms{Models: []string{`<a&"b\`, "c/d"}}}, `{"key":"k","models":["<a&\"b\\","c/d"]}`},
		"the standard class by name":          {Key{ID: "k", Terms: Terms{Class: ClassStandard}}, `{"key":"k","class":"standard"}`},
	} {
		if got := tt.key.termsHeader(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// A successor keeps the terms, whichever key of the chain is rotated.
func TestRotationKeepsTerms(t *testing.T) {
	first := Key{ID: "key_1", Terms: Terms{TokensPerMinute: 7, Models: []string{"a"}, Budget: Budget{1, PeriodDay}, Class: ClassBulk}}
	second := first.succeed(Rotation{}, time.Now())
	third := second.succeed(Rotation{}, time.Now())
	for _, next := range []Key{second, third} {
		if diff := cmp.Diff(first.Terms, next.Terms); diff != "" || next.Chain() != "key_1" {
			t.Errorf("terms (-want +got), counted under %s:\n%s", next.Chain(), diff)
		}
	}
}

func TestUpdateTerms(t *testing.T) {
	old := Terms{TokensPerMinute: 7, Models: []string{"a"}, Budget: Budget{1, PeriodDay}, Class: ClassBulk}
	for name, tt := range map[string]struct {
		update  Update
		want    Terms
		details string
	}{
		"one": {
			Update{TokensPerMinute: new(int64(8))},
			Terms{TokensPerMinute: 8, Models: old.Models, Budget: old.Budget, Class: old.Class},
			`{"tpm":8}`,
		},
		"another": {
			Update{Models: new([]string{"b", "c"}), Class: new(ClassInteractive)},
			Terms{TokensPerMinute: 7, Models: []string{"b", "c"}, Budget: old.Budget, Class: ClassInteractive},
			`{"class":"interactive","models":["b","c"]}`,
		},
		"a budget": {
			Update{Budget: &Budget{2, PeriodTotal}},
			Terms{TokensPerMinute: 7, Models: old.Models, Budget: Budget{2, PeriodTotal}, Class: old.Class},
			`{"budget":{"ceiling_cents":2,"period":"total"}}`,
		},
		"all removed": {
			Update{TokensPerMinute: new(int64), Models: &[]string{}, Budget: &Budget{}, Class: new(Class(""))},
			Terms{},
			`{"budget":null,"class":null,"models":null,"tpm":null}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			key := Key{Terms: old}
			details, err := key.update(tt.update, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, key.Terms); diff != "" {
				t.Errorf("terms (-want +got):\n%s", diff)
			}
			if text, err := json.Marshal(details); err != nil || string(text) != tt.details {
				t.Errorf("details %s, %v, want %s", text, err, tt.details)
			}
		})
	}
	key := Key{Terms: old}
	if _, err := key.update(Update{Class: new(Class("urgent"))}, time.Now()); err == nil {
		t.Error("an unknown class was accepted")
	}
}

// Changed terms are those of the next call a second later, over the feed alone, and no call loads them anew.
func TestChangedTermsReachCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, header, digest := world(t)
		defer watched(t, v, s)()
		of := func() string {
			key, err := v.Verify(t.Context(), header)
			if err != nil {
				t.Fatal(err)
			}
			return key.TermsHeader
		}
		for _, step := range []struct {
			terms Terms
			want  string
		}{
			{Terms{}, ""},
			{Terms{TokensPerMinute: 7}, `{"key":"key_1","tpm":7}`},
			{Terms{Class: ClassBulk}, `{"key":"key_1","class":"bulk"}`},
			{Terms{}, ""},
		} {
			s.change(digest, &Key{ID: "key_1", Terms: step.terms})
			time.Sleep(time.Second)
			synctest.Wait()
			loads := s.count()
			for range 3 {
				if got := of(); got != step.want {
					t.Errorf("terms %s, want %s", got, step.want)
				}
			}
			if got := s.count() - loads; got > 1 {
				t.Errorf("%d lookups, want one", got)
			}
		}
	})
}
