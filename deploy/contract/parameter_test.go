package contract_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"switchyard.dev/deploy/contract"
)

// common are parameters with the same meaning everywhere, which the API reference explains.
var common = []string{"organization_id", "owner_id", "user_id", "limit", "cursor", "all_organizations"}

// Every other query parameter of a contract is named in a document of its service.
func TestQueryParametersAreDocumented(t *testing.T) {
	for service, pkg := range map[string]protoreflect.FullName{
		"gateway": "switchyard.gateway.v1", "webhook-egress": "switchyard.webhooks.v1", "notify": "switchyard.notify.v1",
	} {
		documents := documentsOf(t, service)
		operations, _ := contract.Operations(pkg)
		if len(operations) == 0 {
			t.Errorf("%s has no operations", service)
		}
		for _, o := range operations {
			if o.Verb != http.MethodGet && o.Verb != http.MethodDelete {
				continue
			}
			for _, name := range parametersOf(t, o) {
				if !regexp.MustCompile("[`?&]" + name + `\b`).MatchString(documents) {
					t.Errorf("no document of %s names the parameter %s of %s %s", service, name, o.Verb, o.Path)
				}
			}
		}
	}
}

// parametersOf returns the names of an operation's query parameters that are not common.
func parametersOf(t *testing.T, o contract.Operation) (names []string) {
	t.Helper()
	method, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(o.Method))
	if err != nil {
		t.Fatal(err)
	}
	fields := method.(protoreflect.MethodDescriptor).Input().Fields()
	for i := range fields.Len() {
		name := fields.Get(i).TextName()
		if !strings.Contains(o.Path, "{"+name+"}") && !slices.Contains(common, name) {
			names = append(names, name)
		}
	}
	return names
}

// documentsOf returns the text of a service's documents.
func documentsOf(t *testing.T, service string) string {
	t.Helper()
	paths, err := filepath.Glob("../../services/" + service + "/docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("documents of %s: %v, %v", service, paths, err)
	}
	var all strings.Builder
	for _, path := range append(paths, "../../services/"+service+"/README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
