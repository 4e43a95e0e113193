package stack

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Service is one of the four services, or Control.
type Service string

// The services.
const (
	Gateway       Service = "gateway"
	WebhookEgress Service = "webhook-egress"
	Notify        Service = "notify"
	Edge          Service = "edge"
)

// Services lists all services. The edge is the one in front of the others.
var Services = []Service{Gateway, WebhookEgress, Notify, Edge}

// Control is the edge's second role: the edge's program and settings in a process of its own.
const Control Service = "control"

// processes lists what runs as a process: each service, and the control.
var processes = append(slices.Clone(Services), Control)

// None is the number of replicas that leaves a service out.
const None = -1

// count returns how many replicas of a service run, where it may be given in a number of each.
func count(replicas map[Service]int, service Service) int {
	if n := replicas[service]; n != 0 {
		return max(n, 0)
	}
	return 1
}

// owner returns the service whose program, schema and settings a process has.
func (s Service) owner() Service {
	if s == Control {
		return Edge
	}
	return s
}

// command returns the argument with which the process of a service serves.
func (s Service) command() string {
	if s == Control {
		return "control"
	}
	return "serve"
}

// Other members of a stack, beside the services.
const (
	Fakes    = "fakes"
	Postgres = "postgres"
	Redis    = "redis"
)

// prefix returns the prefix of the names of a service's settings.
func (s Service) prefix() string { return variable(string(s.owner())) + "_" }

// variable returns a name in the form of an environment variable.
func variable(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// schema returns the name of the service's own schema of the database and of its role.
func (s Service) schema() string {
	if s == WebhookEgress {
		return "webhook"
	}
	return string(s.owner())
}

// program returns the package to build; its last element names the binary.
func (s Service) program() string {
	return "./" + path.Join("services", string(s.owner()), "cmd", string(s.owner()))
}

// Fake is one of the third parties that deploy/fakes simulates.
type Fake string

// The fakes.
const (
	FakeProvider Fake = "provider" // an AI provider
	FakeWebhook  Fake = "webhook"  // a customer's webhook receiver
	FakeSlack    Fake = "slack"
	FakePush     Fake = "push" // a web push service
	FakeSMTP     Fake = "smtp"
	FakeMailbox  Fake = "smtp-control" // HTTP: what the SMTP server got, and its script
	FakeTarpit   Fake = "tarpit"       // accepts connections and sends nothing

	// Further instances, called under /hostile/<behaviour>, because the state that a service keeps about their hosts
	// (breakers, retries) must not affect the others.
	FakeHostileProvider Fake = "hostile-provider"
	FakeHostileWebhook  Fake = "hostile-webhook"
	FakeHostilePush     Fake = "hostile-push"

	FakeIdentity        Fake = "identity"         // token servers of clouds and vendors
	FakeGuardedProvider Fake = "guarded-provider" // an AI provider that takes only their credentials

	FakeBilling Fake = "billing" // billing systems that take usage

	FakeTools Fake = "tools" // a server of the Model Context Protocol
)

// AllFakes lists all fakes.
var AllFakes = []Fake{FakeProvider, FakeWebhook, FakeSlack, FakePush, FakeSMTP, FakeMailbox, FakeTarpit, FakeHostileProvider, FakeHostileWebhook, FakeHostilePush, FakeIdentity, FakeGuardedProvider, FakeBilling, FakeTools}

// listener is an address that a member of the stack listens on.
type listener struct {
	member  string // as "gateway", or "gateway-2" for its second replica
	face    face
	setting string // the variable that changes it
	port    int    // the port for people
}

type face string

const (
	faceHTTP face = "HTTP"
	faceGRPC face = "gRPC"
	faceDemo face = "demo" // notify's demo page
	// faceMetrics is the edge's; the other services have their metrics on the HTTP face.
	faceMetrics face = "metrics"
)

// listeners returns the listeners of the services, then those of the wanted fakes.
func listeners(replicas map[Service]int, fakes []Fake) []listener {
	var all []listener
	for i, service := range processes {
		for n := range count(replicas, service) {
			name := member(service, n)
			if service == Edge {
				all = append(all,
					listener{name, faceHTTP, "EDGE_LISTEN", 8080},
					listener{name, faceMetrics, "EDGE_METRICS_LISTEN", 8081})
				continue
			}
			if service == Control {
				all = append(all, listener{name, faceHTTP, "EDGE_CONTROL_LISTEN", 8082})
				continue
			}
			all = append(all,
				listener{name, faceHTTP, service.prefix() + "HTTP_LISTEN", 8101 + i},
				listener{name, faceGRPC, service.prefix() + "GRPC_LISTEN", 9101 + i})
			if service == Notify {
				all = append(all, listener{name, faceDemo, "NOTIFY_DEMO_LISTEN", 8104})
			}
		}
	}
	for i, fake := range AllFakes {
		if slices.Contains(fakes, fake) {
			all = append(all, listener{fakeMember(fake), faceHTTP, "FAKES_" + variable(string(fake)) + "_LISTEN", 8190 + i})
		}
	}
	return all
}

// fakeMember returns the member name of a fake's listener: all fakes are one process.
func fakeMember(fake Fake) string { return Fakes + " " + string(fake) }

// member returns the name of a replica of a service: the first one has the service's name.
func member(service Service, replica int) string {
	if replica == 0 {
		return string(service)
	}
	return fmt.Sprintf("%s-%d", service, replica+1)
}
