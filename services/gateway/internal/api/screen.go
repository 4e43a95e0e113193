package api

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/screen"
)

// class is what a text field of a request holds, and thereby which texts it refuses.
type class int

const (
	// className is for names of models, providers, tools and the like: texts that look like a key are refused. A field
	// that no table lists is of this class.
	className class = iota
	// classID is for identifiers, which may be random, and for people's own texts: hexadecimal numbers pass.
	classID
	// classLabel may be as random as a key: only keys of a known form are refused.
	classLabel
	// classContent is for a model or is opaque: it is not inspected. It may appear in no error, log or row without
	// content.
	classContent
)

// classes of fields by their name, or by message and name where the name alone is ambiguous.
var classes = map[protoreflect.FullName]class{
	"organization_id": classID, "org_id": classID, "run_id": classID, "request_id": classID, "reconciliation_id": classID,
	"server_id": classID, "key_id": classID, "user_id": classID, "group_by": classID, "ref": classID, "approval_ref": classID, "fingerprint": classID, "subject": classID,
	"digest": classID, "listing_digest": classID, "registered_by": classID, "updated_by": classID,

	"actor": classID, "initiated_by": classID, "requested_by": classID, "decided_by": classID, "approver": classID, "created_by": classID, "standing_id": classID, "display_version": classID, "assigned_by": classID,
	"reviewed_by": classID, "revoked_by": classID, "reason": classID, "description": classID, "invoice_ref": classID,
	"MintRunRequest.metadata": classID, "metadata": classLabel, "tags": classLabel, "tag": classLabel, "idempotency_key": classLabel, "when": classLabel,

	"messages": classContent, "prompt": classContent, "stop": classContent, "csv": classContent, "cursor": classContent,
	"GetDecisionRequest.token": classContent, "DecideRequest.token": classContent,
	"ToolFunction.description": classContent, "ImageRef.url": classContent, "ImageRef.base64": classContent,
}

func classOf(field protoreflect.FieldDescriptor) class {
	if c, ok := classes[protoreflect.FullName(field.Parent().Name()).Append(field.Name())]; ok {
		return c
	}
	return classes[protoreflect.FullName(field.Name())]
}

// refuses reports whether a text looks like a key and is not allowed by the class.
func (c class) refuses(text string) bool {
	switch c {
	case className:
		return screen.LooksLikeKey(text)
	case classID:
		return screen.IDLooksLikeKey(text)
	case classLabel:
		return screen.HasKeyForm(text)
	default:
		return false
	}
}

// ScreenMessage refuses a request of any method, on either face, with something that looks like a key in a field that
// names something: such fields are stored, shown and logged. The error names the field and repeats nothing of its text.
func ScreenMessage(m any) error {
	message, ok := m.(proto.Message)
	if !ok {
		return nil
	}
	if err := RefuseRawKeyMessage(m); err != nil {
		return err
	}
	reflected := message.ProtoReflect()
	if reflected.Descriptor().ParentFile().Package() != gatewayv1.File_switchyard_gateway_v1_chat_proto.Package() {
		return nil
	}
	if path := screeningOf(reflected.Descriptor()).find(reflected); path != "" {
		return refuseKey(path)
	}
	return nil
}

// checkRead applies all rules to a message whose strings were read from JSON texts.
func checkRead(m proto.Message, texts ...[]byte) error {
	if err := ScreenMessage(m); err != nil {
		return err
	}
	return rpc.ValidateRead(m, texts...)
}

func refuseKey(path string) error {
	if strings.HasPrefix(path, "byok.") {
		return byok.RefuseRawKey(path)
	}
	return apierr.New(apierr.KindInvalid, byok.ReasonRawKeyRefused, path+": seems to hold a raw key; send a name or an identifier")
}

// screening is what is inspected in a message: its text fields, and its messages that have some. It is built once for
// each message type.
type screening []screened

type screened struct {
	field protoreflect.FieldDescriptor
	class class
	inner screening // of a field that holds messages
}

var screenings sync.Map // protoreflect.FullName to screening

func screeningOf(desc protoreflect.MessageDescriptor) screening {
	if known, ok := screenings.Load(desc.FullName()); ok {
		return known.(screening) //nolint:errcheck,forcetypeassert // The map holds nothing else.
	}
	made := newScreening(desc)
	screenings.Store(desc.FullName(), made)
	return made
}

// newScreening omits fields that can't hold a name. The contract's requests are not recursive, which its test checks.
func newScreening(desc protoreflect.MessageDescriptor) (s screening) {
	for i := range desc.Fields().Len() {
		field := desc.Fields().Get(i)
		c := classOf(field)
		switch {
		case c == classContent:
		case field.IsMap(), field.Kind() == protoreflect.StringKind:
			s = append(s, screened{field: field, class: c})
		case field.Kind() == protoreflect.MessageKind && field.Message().ParentFile().Package() == desc.ParentFile().Package():
			if inner := newScreening(field.Message()); len(inner) > 0 {
				s = append(s, screened{field: field, inner: inner})
			}
		}
	}
	return s
}

// find returns the path of the first field that is refused; empty if none is.
func (s screening) find(m protoreflect.Message) string {
	for i := range s {
		f := &s[i]
		if !m.Has(f.field) {
			continue
		}
		if path := f.in(m.Get(f.field)); path != "" {
			return path
		}
	}
	return ""
}

func (f *screened) in(value protoreflect.Value) (path string) {
	name := string(f.field.Name())
	switch {
	case f.field.IsMap():
		value.Map().Range(func(key protoreflect.MapKey, item protoreflect.Value) bool {
			if f.class.refuses(key.String()) || f.field.MapValue().Kind() == protoreflect.StringKind && f.class.refuses(item.String()) {
				path = name
			}
			return path == ""
		})
		return path
	case !f.field.IsList():
		return f.one(name, value)
	}
	for i := range value.List().Len() {
		if path = f.one(dialect.At(name, i), value.List().Get(i)); path != "" {
			return path
		}
	}
	return ""
}

func (f *screened) one(name string, value protoreflect.Value) string {
	if f.inner == nil {
		if f.class.refuses(value.String()) {
			return name
		}
		return ""
	}
	if path := f.inner.find(value.Message()); path != "" {
		return name + "." + path
	}
	return ""
}
