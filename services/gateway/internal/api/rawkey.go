package api

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/platform/apierr"
)

// byokMethods is the prefix of the methods that take organizations' credentials for providers.
var byokMethods = "/" + gatewayv1.ByokService_ServiceDesc.ServiceName + "/"

// takesCredentials reports whether a method takes credentials.
func takesCredentials(method string) bool {
	return strings.HasPrefix(method, byokMethods) ||
		method == gatewayv1.ToolServerService_RegisterToolServer_FullMethodName || method == gatewayv1.ToolServerService_UpdateToolServer_FullMethodName
}

// opaque reports whether a field's text is meant to look random.
func opaque(field string) bool {
	return field == "ciphertext" || field == "key_id" || field == "cursor"
}

// maxCredentialBody bounds the body of a method that takes credentials, in bytes: four times the sum of its longest
// fields. Every byte is inspected.
const maxCredentialBody = 128 << 10

// RefuseRawKeyBody refuses a body of a method that takes credentials if it seems to hold a raw key in any field, known
// or not, or if it is larger than any such body needs to be. The error repeats no value.
func RefuseRawKeyBody(method string, body []byte) error {
	if !takesCredentials(method) {
		return nil
	}
	if len(body) > maxCredentialBody {
		return apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge, fmt.Sprintf("body: larger than %d bytes", maxCredentialBody))
	}
	return refuseRawJSON(body)
}

// fieldName matches the names that may be repeated.
var fieldName = regexp.MustCompile(`^[a-z][a-z_]{0,39}$`)

// refuseRawJSON inspects the names and texts of a body once. An error names the nearest field above a text that may be
// repeated. Invalid JSON is inspected up to the error; decoding it refuses the rest.
func refuseRawJSON(body []byte) error {
	fields := []string{"body"} // by depth
	decoder := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil //nolint:nilerr // The body ends here, or is invalid from here on.
		}
		depth := decoder.StackDepth()
		kind, length := decoder.StackIndex(depth)
		switch token.Kind() {
		case '{', '[':
			fields = append(fields[:depth], fields[depth-1])
		case '"':
			text, isName := token.String(), kind == '{' && length%2 == 1
			switch {
			case isName && fieldName.MatchString(text):
				fields[depth] = text
			case isName && byok.LooksRaw(text):
				return byok.RefuseRawKey("body")
			case isName:
				fields[depth] = fields[depth-1]
			case !opaque(fields[depth]) && byok.LooksRaw(text):
				return byok.RefuseRawKey(fields[depth])
			}
		default:
		}
	}
}

// RefuseRawKeyMessage is RefuseRawKeyBody for messages of either face.
func RefuseRawKeyMessage(m any) error {
	switch m := m.(type) {
	case *gatewayv1.RegisterToolServerRequest:
		return refuseRawFields(m.ProtoReflect())
	case *gatewayv1.UpdateToolServerRequest:
		return refuseRawFields(m.ProtoReflect())
	case proto.Message:
		if m.ProtoReflect().Descriptor().ParentFile() == gatewayv1.File_switchyard_gateway_v1_byok_proto {
			return refuseRawFields(m.ProtoReflect())
		}
	}
	return nil
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
