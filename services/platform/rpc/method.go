package rpc

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/screen"
	"switchyard.dev/services/platform/spelling"
)

// Route is one HTTP path of a contract.
type Route struct {
	// Verb and Path are those of the contract's google.api.http rule.
	Verb, Path string
	// Method is the full gRPC method name, "/package.Service/Method".
	Method string
	// Role that the method requires; empty if the contract gives none.
	Role caller.Role
	// Body is true if the whole request is in the body and none of it in the query.
	Body bool
}

// Routes returns the HTTP rules and roles of a service's methods. A method without an HTTP rule has an empty Verb and
// Path.
func Routes(service protoreflect.ServiceDescriptor, role protoreflect.ExtensionType) []Route {
	var routes []Route
	for i := range service.Methods().Len() {
		method := service.Methods().Get(i)
		route := Route{
			Method: fmt.Sprintf("/%s/%s", service.FullName(), method.Name()),
			Role:   roleOf(method, role),
		}
		rule, ok := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
		if !ok || rule == nil {
			routes = append(routes, route)
			continue
		}
		for _, binding := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
			route.Verb, route.Path = verbAndPath(binding)
			route.Body = binding.GetBody() == "*"
			routes = append(routes, route)
		}
	}
	return routes
}

func verbAndPath(rule *annotations.HttpRule) (verb, path string) {
	switch {
	case rule.GetGet() != "":
		return "GET", rule.GetGet()
	case rule.GetPost() != "":
		return "POST", rule.GetPost()
	case rule.GetPut() != "":
		return "PUT", rule.GetPut()
	case rule.GetPatch() != "":
		return "PATCH", rule.GetPatch()
	case rule.GetDelete() != "":
		return "DELETE", rule.GetDelete()
	}
	return rule.GetCustom().GetKind(), rule.GetCustom().GetPath()
}

// roleOf returns the caller.Role of the role option: the enum value's name without its prefix, in lower case. It is
// empty if the option is missing or zero.
func roleOf(method protoreflect.MethodDescriptor, role protoreflect.ExtensionType) caller.Role {
	value := role.TypeDescriptor().Enum()
	message := method.Options().ProtoReflect()
	if !message.Has(role.TypeDescriptor()) {
		return ""
	}
	number := message.Get(role.TypeDescriptor()).Enum()
	name := string(value.Values().ByNumber(number).Name())
	if number == 0 {
		return ""
	}
	return caller.Role(strings.ToLower(strings.TrimPrefix(name, "ROLE_")))
}

// methodTable maps methods and HTTP routes to roles, for both faces.
type methodTable struct {
	extension protoreflect.ExtensionType
	roles     map[string]caller.Role // by full method name
	routes    map[string]string      // "VERB /path/{x}" to full method name
	// inputs holds the request message of each method that reads the query, by full method name; nil for methods that
	// don't.
	inputs map[string]protoreflect.MessageDescriptor
}

func newMethodTable(role protoreflect.ExtensionType) methodTable {
	return methodTable{
		extension: role, roles: make(map[string]caller.Role), routes: make(map[string]string),
		inputs: make(map[string]protoreflect.MessageDescriptor),
	}
}

func (t methodTable) add(desc *grpc.ServiceDesc) error {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(desc.ServiceName))
	if err != nil {
		return fmt.Errorf("rpc: service %s: %w", desc.ServiceName, err)
	}
	service, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return fmt.Errorf("rpc: %s is not a service", desc.ServiceName)
	}
	for _, route := range Routes(service, t.extension) {
		if route.Role == "" {
			return fmt.Errorf("rpc: method %s has no role", route.Method)
		}
		t.roles[route.Method] = route.Role
		name := route.Method[strings.LastIndex(route.Method, "/")+1:]
		t.inputs[route.Method] = nil
		if !route.Body {
			t.inputs[route.Method] = service.Methods().ByName(protoreflect.Name(name)).Input()
		}
		if route.Path != "" {
			t.route(route.Verb, route.Path, route.Method)
		}
	}
	return nil
}

func (t methodTable) route(verb, path, method string) {
	t.routes[verb+" "+path] = method
}

// byPattern returns the method behind a matched pattern.
func (t methodTable) byPattern(verb, pattern string) (string, bool) {
	method, ok := t.routes[verb+" "+pattern]
	return method, ok
}

// plainPattern returns a matched grpc-gateway pattern, which prints "{name}" as "{name=*}", as it was registered.
func plainPattern(printed string) string { return strings.ReplaceAll(printed, "=*}", "}") }

// checkURL refuses bytes that percent-encoding can carry and no store accepts, and query parameters that the method's
// request has no field for: a misspelt filter must not widen the result. lenient permits unknown parameters.
func (t methodTable) checkURL(method string, u *url.URL, lenient bool) error {
	query := u.Query()
	if !isText(u.Path) {
		return apierr.Invalid("path", "must be UTF-8 without a zero byte")
	}
	for name, values := range query {
		if !isText(strings.Join(values, "")) {
			return refuseParameter(name, "must be UTF-8 without a zero byte")
		}
	}
	if lenient {
		return nil
	}
	if err := t.checkParameters(method, query); err != nil {
		return err
	}
	return checkPageSize(query)
}

// pageSize is the parameter of every list that sets how many items a page has.
const pageSize = "limit"

// checkPageSize refuses a page size of zero. In the message, zero is also the value of an absent parameter, so only the
// query shows the difference.
func checkPageSize(query url.Values) error {
	for _, value := range query[pageSize] {
		if n, err := strconv.ParseInt(value, 0, 32); err == nil && n == 0 || value == "" {
			return apierr.Invalid(pageSize, "must be 1 or more; leave it out for the default page size")
		}
	}
	return nil
}

// refuseParameter returns the error for a query parameter. It repeats the name only if screen.IsName permits it.
func refuseParameter(name, rule string) error {
	if !screen.IsName(name) {
		return apierr.Invalid("query", "a parameter "+screen.Quote(name)+": "+rule)
	}
	return apierr.Invalid(name, rule)
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// checkParameters refuses a query parameter that the method's request has no field for.
func (t methodTable) checkParameters(method string, query url.Values) error {
	input, ok := t.inputs[method]
	if !ok {
		return nil
	}
	for name := range query {
		field, _, _ := strings.Cut(name, ".")
		switch {
		case input == nil:
			return refuseParameter(name, "unknown query parameter; this request takes none")
		case fieldOf(input, field) == nil:
			return refuseParameter(name, "unknown query parameter"+spelling.Hint(field, "parameters", fieldNames(input)))
		}
	}
	return nil
}
