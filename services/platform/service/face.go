package service

import (
	"cmp"
	"io/fs"
	"net/http"

	"switchyard.dev/services/platform/apidoc"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

// Access configures who may call the faces of a service.
type Access struct {
	// TokensFile contains the service tokens; see caller.LoadTokens.
	TokensFile string
	// AuthDisabled treats every caller as an operator and reads no tokens.
	AuthDisabled bool
	TLS          rpc.TLS
}

// Tokens returns the service tokens, or nil if authentication is disabled.
func (a Access) Tokens() (*caller.Tokens, error) {
	if a.AuthDisabled {
		return nil, nil //nolint:nilnil // rpc.Options documents nil.
	}
	return caller.LoadTokens(a.TokensFile)
}

// NewServer returns the server of both faces. It sets the Log, Tracer, Meter, Tokens and TLS of o.
func (s *Service) NewServer(a Access, o rpc.Options) (*rpc.Server, error) {
	var err error
	if o.Tokens, err = a.Tokens(); err != nil {
		return nil, err
	}
	if o.TLS, err = a.TLS.Config(); err != nil {
		return nil, err
	}
	o.Log, o.Tracer, o.Meter = s.Log, s.Tracer, s.Meter
	return rpc.New(o)
}

// Contract is the generated document of a face, openapi/<Name>.swagger.json in Files, and its title and description.
type Contract struct {
	Files                    fs.FS
	Name, Title, Description string
}

// Open are the handlers that need no service token.
type Open struct {
	// Health answers GET /health; nil answers 200 as long as the process can.
	Health http.Handler
	// Ready answers GET /health/ready; nil uses the checks of the Runner.
	Ready    http.Handler
	Contract Contract
	// Pages are further handlers of GET, by their paths.
	Pages map[string]http.Handler
}

// Paths of every face that need no service token, beside the documents of apidoc.
const (
	healthPath  = "/health"
	livePath    = "/health/live"
	readyPath   = "/health/ready"
	metricsPath = "/metrics"
)

// Mount mounts health, metrics, the contract's documents, / that leads to all of them, and further pages.
func (s *Service) Mount(server *rpc.Server, o Open) error {
	for pattern, handler := range s.Probes(o.Health, o.Ready) {
		server.HandleOpen(pattern, handler)
	}
	server.HandleOpen("GET "+metricsPath, s.Metrics)
	root, err := s.index()
	if err != nil {
		return err
	}
	server.HandleOpen("GET /", root)
	documents, err := apidoc.Face(o.Contract.Files, o.Contract.Name, o.Contract.Title, o.Contract.Description)
	if err != nil {
		return err
	}
	for _, pages := range []map[string]http.Handler{documents, o.Pages} {
		for path, handler := range pages {
			server.HandleOpen("GET "+path, handler)
		}
	}
	return nil
}

// Probes returns the handlers of health, liveness and readiness by their patterns. A nil health is liveness, a nil ready
// uses the checks of the Runner.
func (s *Service) Probes(health, ready http.Handler) map[string]http.Handler {
	return map[string]http.Handler{
		"GET " + healthPath: cmp.Or(health, rpc.Live()),
		"GET " + livePath:   rpc.Live(),
		"GET " + readyPath:  cmp.Or(ready, rpc.Ready(s.Runner)),
	}
}
