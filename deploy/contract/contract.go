// Package contract lists what the contracts offer, for the tests that cover all of it.
package contract

import (
	"net/http"
	"regexp"
	"slices"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
)

// Operation is an HTTP path and verb that a contract maps a gRPC method to.
type Operation struct {
	// Method is the full name of the gRPC method.
	Method     string
	Verb, Path string
	Role       optionsv1.Role
}

var parameter = regexp.MustCompile(`\{[^}]+\}`)

// At returns the path with value in the place of each of its parameters.
func (o Operation) At(value string) string { return parameter.ReplaceAllString(o.Path, value) }

// Operations returns the operations of a proto package and the full names of its services.
func Operations(pkg protoreflect.FullName) (all []Operation, services []string) {
	protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			services = append(services, string(service.FullName()))
			for j := range service.Methods().Len() {
				all = append(all, bindings(service.Methods().Get(j))...)
			}
		}
		return true
	})
	slices.Sort(services)
	return all, services
}

// bindings returns the operations of a method.
func bindings(method protoreflect.MethodDescriptor) (all []Operation) {
	role, _ := proto.GetExtension(method.Options(), optionsv1.E_Role).(optionsv1.Role)
	rule, _ := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		if verb, path := binding(r); path != "" {
			all = append(all, Operation{string(method.FullName()), verb, path, role})
		}
	}
	return all
}

func binding(rule *annotations.HttpRule) (verb, path string) {
	switch pattern := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return http.MethodGet, pattern.Get
	case *annotations.HttpRule_Post:
		return http.MethodPost, pattern.Post
	case *annotations.HttpRule_Put:
		return http.MethodPut, pattern.Put
	case *annotations.HttpRule_Patch:
		return http.MethodPatch, pattern.Patch
	case *annotations.HttpRule_Delete:
		return http.MethodDelete, pattern.Delete
	}
	return "", ""
}
