package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/deploy/contract"
	"switchyard.dev/gen"
	_ "switchyard.dev/gen/go/switchyard/gateway/v1"  // Its contract is listed.
	_ "switchyard.dev/gen/go/switchyard/notify/v1"   // As above.
	_ "switchyard.dev/gen/go/switchyard/webhooks/v1" // As above.
)

// services are the services with the name of their contract; the edge has none.
var services = []struct{ name, contract string }{
	{"gateway", "gateway"}, {"webhook-egress", "webhooks"}, {"notify", "notify"}, {"edge", ""},
}

// references returns the documents that are made from the contracts and the code, by path.
func references(root string) (map[string][]byte, error) {
	made := make(map[string][]byte)
	for name, of := range map[string]func(root string) (string, error){
		"settings": settings, "routes": routes, "operations": operations, "errors": errorCodes, "metrics": metrics,
	} {
		text, err := of(root)
		if err != nil {
			return nil, fmt.Errorf("reference of %s: %w", name, err)
		}
		made["reference/"+name+".md"] = []byte(text)
	}
	return made, nil
}

// settingsMark begins and ends the table of settings in a README.
var settingsMark = regexp.MustCompile(`<!-- /?settings -->\n`)

// settings returns the tables of settings of all services, which tests keep equal to the services' own.
func settings(root string) (string, error) {
	var out strings.Builder
	out.WriteString("# Settings\n\nAll settings of all services, which are environment variables. `<service> config` prints those that are in effect.\n")
	for _, service := range services {
		readme, err := os.ReadFile(filepath.Join(root, "services", service.name, "README.md"))
		if err != nil {
			return "", err
		}
		parts := settingsMark.Split(string(readme), -1)
		if len(parts) != 3 {
			return "", fmt.Errorf("the README of %s has %d marks of settings, want 2", service.name, len(parts)-1)
		}
		fmt.Fprintf(&out, "\n## %s\n\nMore of it: [%s](../services/%s/README.md).\n\n%s", service.name, service.name, service.name, parts[1])
	}
	return out.String(), nil
}

// routes returns the table of the customers' routes.
func routes(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "services/edge/internal/route/snapshot_v1.yaml"))
	if err != nil {
		return "", err
	}
	var table struct {
		Routes []struct {
			Method, Path, Summary, Permission, Scope, Metric string
			Products                                         []string
		}
	}
	if err := yaml.Unmarshal(text, &table); err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("# Customers' routes\n\nWhat a product key opens at the edge: a key of one of the products that has the scope, or the permission. What each\n" +
		"takes and answers is at an edge's `/docs` and `/openapi.json`; [as curl lines](../deploy/examples/recipes/edge.md).\n\n" +
		"| Route | Products | Scope | Permission | Counts as |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range table.Routes {
		row(&out, coded(r.Method+" "+r.Path), strings.Join(r.Products, ", "), coded(r.Scope), coded(r.Permission), coded(r.Metric))
	}
	return out.String(), nil
}

// operations returns the operations of the services' contracts, with who may call them.
func operations(string) (string, error) {
	var out strings.Builder
	out.WriteString("# Operations\n\nWhat your own services and operators call, with a service token of the role. An operator may call all. Each is a gRPC\n" +
		"method, too. Fields are in `/docs` and `/openapi.json` of each service. The edge's own, below `/admin/v1/`, are in its\n" +
		"[README](../services/edge/README.md#endpoints).\n")
	for _, service := range services {
		if service.contract == "" {
			continue
		}
		if err := operationsOf(&out, service.name, service.contract); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

func operationsOf(out *strings.Builder, service, name string) error {
	text, err := gen.OpenAPI.ReadFile("openapi/" + name + ".swagger.json")
	if err != nil {
		return err
	}
	var document struct {
		Paths map[string]map[string]struct{ Summary, Description string }
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n## %s\n\n[As curl lines](../deploy/examples/recipes/%s.md).\n\n| Operation | Role | Meaning |\n| --- | --- | --- |\n", service, service)
	all, _ := contract.Operations(protoreflect.FullName("switchyard." + name + ".v1"))
	if len(all) == 0 {
		return fmt.Errorf("the contract of %s has no operations", service)
	}
	for _, o := range all {
		described, found := document.Paths[o.Path][strings.ToLower(o.Verb)]
		if !found {
			return fmt.Errorf("the OpenAPI document of %s lacks %s %s", service, o.Verb, o.Path)
		}
		meaning := firstSentence(spaces.ReplaceAllString(described.Summary+" "+described.Description, " "))
		row(out, coded(o.Verb+" "+o.Path), strings.ToLower(strings.TrimPrefix(o.Role.String(), "ROLE_")), plainText(meaning))
	}
	return nil
}

// errorCodes returns the contract's error codes.
func errorCodes(string) (string, error) {
	text, err := gen.OpenAPI.ReadFile("openapi/errors.json")
	if err != nil {
		return "", err
	}
	var codes []struct{ Code, Status, Meaning string }
	if err := json.Unmarshal(text, &codes); err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("# Error codes\n\nThe code of an error is its field `error`. Programs branch on it, or on `error_class`, which says what to do; `reason`\n" +
		"is for people. A code without a status has that of its cause.\n\n| Code | Status | Meaning |\n| --- | --- | --- |\n")
	for _, c := range codes {
		row(&out, coded(c.Code), c.Status, plainText(c.Meaning))
	}
	return out.String(), nil
}

// row writes a row of a table.
func row(out *strings.Builder, values ...string) {
	for _, value := range values {
		out.WriteString("| " + strings.ReplaceAll(strings.TrimSpace(value), "|", `\|`) + " ")
	}
	out.WriteString("|\n")
}

// coded returns a text as code; nothing for nothing.
func coded(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// plainText returns a text of a contract as Markdown: it may hold code, but neither HTML nor links.
func plainText(text string) string {
	return strings.NewReplacer("<", "&lt;", "[", `\[`).Replace(text)
}
