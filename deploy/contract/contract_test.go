// Package contract_test checks rules that span the contracts of all services: what JSON can carry, and that free JSON
// is marked.
package contract_test

import (
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/visibility"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	errorsv1 "switchyard.dev/gen/go/switchyard/errors/v1"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
)

// linked keeps the contracts' descriptors in the registry of this program.
var linked = []protoreflect.FileDescriptor{
	errorsv1.File_switchyard_errors_v1_errors_proto, gatewayv1.File_switchyard_gateway_v1_chat_proto,
	notifyv1.File_switchyard_notify_v1_notify_proto, webhooksv1.File_switchyard_webhooks_v1_deliveries_proto,
}

// binary lists the bytes fields that are base64 on the JSON face.
var binary = map[protoreflect.FullName]bool{
	"switchyard.gateway.v1.SealedCredential.ciphertext": true,
	"switchyard.gateway.v1.SealingKey.public_key":       true,
}

func eachField(visit func(protoreflect.FieldDescriptor)) {
	var messages func(protoreflect.MessageDescriptors)
	messages = func(list protoreflect.MessageDescriptors) {
		for i := range list.Len() {
			for j := range list.Get(i).Fields().Len() {
				visit(list.Get(i).Fields().Get(j))
			}
			messages(list.Get(i).Messages())
		}
	}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(string(file.Package()), "switchyard.") {
			messages(file.Messages())
		}
		return true
	})
}

func TestFieldsFitJSON(t *testing.T) {
	fields := 0
	eachField(func(field protoreflect.FieldDescriptor) {
		fields++
		raw := proto.HasExtension(field.Options(), optionsv1.E_RawJson)
		switch field.Kind() {
		case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Sint64Kind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
			t.Errorf("%s is a 64-bit integer, which JSON shows as a string", field.FullName())
		case protoreflect.BytesKind:
			if raw == binary[field.FullName()] {
				t.Errorf("%s: a bytes field is either marked raw_json or listed as binary", field.FullName())
			}
		case protoreflect.EnumKind:
			t.Errorf("%s is an enum; enumerated values are strings on the JSON face", field.FullName())
		default:
			if raw {
				t.Errorf("%s is marked raw_json but is no bytes field", field.FullName())
			}
		}
		hidden := proto.HasExtension(field.Options(), visibility.E_FieldVisibility)
		if field.ContainingOneof() != nil && !field.ContainingOneof().IsSynthetic() && !hidden {
			t.Errorf("%s is in a oneof, and not marked with the visibility of gRPC callers", field.FullName())
		}
	})
	if fields < 300 || len(linked) == 0 {
		t.Errorf("only %d fields seen: are the contracts linked?", fields)
	}
}

// Error reasons are codes of the interface: all upper case behind the prefix ERROR_REASON_.
func TestReasonsAreCodes(t *testing.T) {
	values := errorsv1.ErrorReason_ERROR_REASON_UNSPECIFIED.Descriptor().Values()
	for i := range values.Len() {
		name := string(values.Get(i).Name())
		if !strings.HasPrefix(name, "ERROR_REASON_") || strings.ToUpper(name) != name {
			t.Errorf("%s: not ERROR_REASON_<CODE>", name)
		}
	}
}
