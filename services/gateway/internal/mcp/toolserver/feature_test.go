package toolserver

import (
	"slices"
	"testing"
	"time"
)

func TestFeatures(t *testing.T) {
	r := Registration{Key: Key{ID: "a"}, URL: "https://a.example", By: "ann"}
	for name, c := range map[string]struct {
		named, want []Feature
		wrong       bool
	}{
		"none":    {nil, []Feature{FeatureTools}, false},
		"twice":   {[]Feature{FeaturePrompts, FeatureTools, FeaturePrompts}, []Feature{FeatureTools, FeaturePrompts}, false},
		"one":     {[]Feature{FeatureResources}, []Feature{FeatureResources}, false},
		"tasks":   {[]Feature{FeatureTasks, FeatureTools}, []Feature{FeatureTools, FeatureTasks}, false},
		"no tool": {[]Feature{FeatureTasks, FeaturePrompts}, nil, true},
		"unknown": {[]Feature{FeatureTools, "sampling"}, nil, true},
	} {
		r.Features = c.named
		s, err := r.server(time.Now())
		if (err != nil) != c.wrong || err == nil && !slices.Equal(s.Features, c.want) {
			t.Errorf("%s: %v %v", name, s.Features, err)
			continue
		}
		for _, f := range Features() {
			if err == nil && s.Offers(f) != slices.Contains(c.want, f) {
				t.Errorf("%s: offers %s: %t", name, f, s.Offers(f))
			}
		}
	}
	s := Server{ID: "a", Prefix: "a", URL: "https://a.example", Version: 1}
	if !s.Offers(FeatureTools) || s.Offers(FeatureResources) {
		t.Error("a server of before offers other than tools")
	}
	next, err := s.update(&Update{Features: []Feature{FeatureResources}}, time.Now())
	if err != nil || next.Offers(FeatureTools) || !next.Offers(FeatureResources) || next.Version != 2 {
		t.Errorf("%+v %v", next, err)
	}
	if kept, err := next.update(&Update{}, time.Now()); err != nil || !slices.Equal(kept.Features, next.Features) {
		t.Errorf("%+v %v", kept, err)
	}
	if _, err := s.update(&Update{Features: []Feature{"x"}}, time.Now()); err == nil {
		t.Error("an unknown feature")
	}
}
