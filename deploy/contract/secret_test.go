package contract_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// shownOnce lists the secrets that a response holds because its request created them.
var shownOnce = []protoreflect.FullName{
	"switchyard.gateway.v1.DecisionToken.token",
	"switchyard.webhooks.v1.Endpoint.generated_secret",
}

// No response holds a secret that callers send: no field is marked as a secret, and none has the name of a request's
// secret.
func TestResponsesHoldNoSecrets(t *testing.T) {
	for _, pkg := range []protoreflect.FullName{"switchyard.gateway.v1", "switchyard.notify.v1", "switchyard.webhooks.v1"} {
		requests, responses := eachMessage(pkg)
		secrets := make(map[protoreflect.Name]protoreflect.FullName)
		for _, field := range requests {
			if isSecret(field) {
				secrets[field.Name()] = field.FullName()
			}
		}
		if len(secrets) == 0 {
			t.Errorf("%s: no request has a secret", pkg)
		}
		for name, field := range responses {
			sent, named := secrets[field.Name()]
			switch {
			case slices.Contains(shownOnce, name):
			case isSecret(field):
				t.Errorf("%s: a response holds a secret", name)
			case named:
				t.Errorf("%s: a response names the secret %s", name, sent)
			}
		}
		for _, name := range shownOnce {
			if strings.HasPrefix(string(name), string(pkg)+".") && responses[name] == nil {
				t.Errorf("%s: no response has it", name)
			}
		}
	}
}

// isSecret reports whether a field is marked as hidden from logs.
func isSecret(field protoreflect.FieldDescriptor) bool {
	options, _ := field.Options().(*descriptorpb.FieldOptions)
	return options.GetDebugRedact()
}

// eachMessage returns the fields of the requests and of the responses of a package's methods, at any depth.
func eachMessage(pkg protoreflect.FullName) (requests, responses map[protoreflect.FullName]protoreflect.FieldDescriptor) {
	requests, responses = make(map[protoreflect.FullName]protoreflect.FieldDescriptor), make(map[protoreflect.FullName]protoreflect.FieldDescriptor)
	protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				addFields(methods.Get(j).Input(), requests)
				addFields(methods.Get(j).Output(), responses)
			}
		}
		return true
	})
	return requests, responses
}

func addFields(message protoreflect.MessageDescriptor, all map[protoreflect.FullName]protoreflect.FieldDescriptor) {
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if all[field.FullName()] != nil {
			continue
		}
		all[field.FullName()] = field
		if field.Message() != nil && field.Message().ParentFile().Package() != "google.protobuf" {
			addFields(field.Message(), all)
		}
	}
}
