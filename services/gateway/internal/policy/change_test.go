package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
)

func TestChanges(t *testing.T) {
	before := policytest.Parse(t, policytest.Wide)
	if got := policy.Changes(before, policytest.Parse(t, policytest.Wide+"# a remark\n")); len(got) != 0 {
		t.Errorf("%v, want none", got)
	}
	edits := strings.NewReplacer(
		"name: four", "name: five", "four/embed", "five/embed", "limits: {context: 8000, output: 2000}", "limits: {context: 8000}",
		"embeddings: one/vectors", "embeddings: five/embed", "regions: [eu]", "regions: [ch]", "- {name: easel, operations: [images], image_tokens: 2000}", "- {name: chalk, operations: [images]}",
		"[three/easel, three/paint]", "three/chalk, three/paint", "images: [three/easel]", "images: [three/chalk]", "default_goal: quality", "default_goal: cost",
	)
	after := policytest.Parse(t, edits.Replace(policytest.Wide)+policytest.Rules+"cache: {enabled: true}\nhedge: {latency: {budget_percent: 2}}\nresilience: {breaker: {sample: 9}}\ntools: {require_run: true}\n")
	want := []string{
		"provider four removed", "model one/small changed", "provider two changed", "model three/easel removed", "model three/chalk added", "provider five added",
		"default_model.embeddings: five/embed, was one/vectors", "ladder.embeddings changed", "ladder.images changed", "goals.quality changed",
		"default_goal: cost, was quality", "data_classification changed", "hedge.latency changed", "cache changed", "tools changed", "resilience changed",
	}
	if diff := cmp.Diff(want, policy.Changes(before, after)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestListing(t *testing.T) {
	var got []string
	for _, target := range policytest.Parse(t, policytest.Wide).Listing() {
		got = append(got, target.String())
	}
	want := "one/big one/small one/vectors one/shared two/wise three/flash three/paint three/easel four/embed"
	if strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}
