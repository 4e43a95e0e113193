package api

import (
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/byok"
)

// byokMethods begin the names of the methods that take credentials.
var byokMethods = "/" + gatewayv1.ByokService_ServiceDesc.ServiceName + "/"

// opaque are the fields whose text is meant to look random.
func opaque(field string) bool {
	return field == "ciphertext" || field == "key_id" || field == "cursor"
}

// RefuseRawKeyBody refuses a body for the keeper of credentials that seems to
// hold a raw key, in whatever field, known or not. The answer repeats nothing.
func RefuseRawKeyBody(method string, body []byte) error {
	if !strings.HasPrefix(method, byokMethods) {
		return nil
	}
	return refuseRawJSON("body", gjson.ParseBytes(body))
}

// fieldName is what a name must be like to be repeated.
var fieldName = regexp.MustCompile(`^[a-z][a-z_]{0,39}$`)

func refuseRawJSON(field string, value gjson.Result) (err error) {
	if !value.IsObject() && !value.IsArray() {
		if value.Type == gjson.String && !opaque(field) && byok.LooksRaw(value.String()) {
			return byok.RefuseRawKey(field)
		}
		return nil
	}
	value.ForEach(func(name, item gjson.Result) bool {
		inner := field
		switch {
		case fieldName.MatchString(name.String()):
			inner = name.String()
		case name.Type == gjson.String && byok.LooksRaw(name.String()):
			err = byok.RefuseRawKey("body")
			return false
		}
		err = refuseRawJSON(inner, item)
		return err == nil
	})
	return err
}

// RefuseRawKeyMessage is RefuseRawKeyBody for messages, of either face.
func RefuseRawKeyMessage(m any) error {
	message, ok := m.(proto.Message)
	if !ok {
		return nil
	}
	if file := message.ProtoReflect().Descriptor().ParentFile(); file != gatewayv1.File_switchyard_gateway_v1_byok_proto {
		return nil
	}
	return refuseRawFields(message.ProtoReflect())
}

func refuseRawFields(m protoreflect.Message) (err error) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name := string(field.Name())
		switch field.Kind() {
		case protoreflect.StringKind:
			if !opaque(name) && byok.LooksRaw(value.String()) {
				err = byok.RefuseRawKey(name)
			}
		case protoreflect.MessageKind:
			err = refuseRawFields(value.Message())
		default:
		}
		return err == nil
	})
	return err
}
