package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// ingressSpec is the spec of an Ingress.
type ingressSpec struct {
	IngressClassName string `yaml:"ingressClassName"`
	TLS              []struct {
		Hosts      []string
		SecretName string `yaml:"secretName"`
	}
	Rules []struct {
		Host string
		HTTP struct{ Paths []ingressPath }
	}
}

type ingressPath struct {
	Path     string
	PathType string `yaml:"pathType"`
	Backend  struct {
		Service struct {
			Name string
			Port struct {
				Name   string
				Number int
			}
		}
	}
}

// backendProtocol is the annotation by which the controller speaks TLS with pods.
const backendProtocol = "nginx.ingress.kubernetes.io/backend-protocol"

// ingresses returns the ingresses of the controller's class.
func (c *Cluster) ingresses() (all map[*object]ingressSpec) {
	all = make(map[*object]ingressSpec)
	for _, o := range c.ofKind("Ingress") {
		var of struct{ Spec ingressSpec }
		o.read(&of)
		if of.Spec.IngressClassName == c.options.IngressClass {
			all[o] = of.Spec
		}
	}
	return all
}

// serveIngress is the controller of ingresses, until ctx ends.
func (c *Cluster) serveIngress(ctx context.Context) error {
	proxy := &httputil.ReverseProxy{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			if to := c.route(r.In); to != nil {
				r.SetURL(to)
				r.Out.Host = r.In.Host
				r.SetXForwarded()
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx },
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.certificate},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.route(r) == nil {
				http.Error(w, "default backend - 404", http.StatusNotFound)
				return
			}
			proxy.ServeHTTP(w, r)
		}),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ServeTLS(c.ingress, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// route returns where a request goes by the rules, nil where none fits.
func (c *Cluster) route(r *http.Request) *url.URL {
	c.mu.Lock()
	defer c.mu.Unlock()
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	for o, spec := range c.ingresses() {
		for _, rule := range spec.Rules {
			for _, path := range rule.HTTP.Paths {
				if rule.Host == host && path.fits(r.URL.Path) {
					return c.behind(o, path)
				}
			}
		}
	}
	return nil
}

// fits reports whether a request's path is one of the rule's.
func (p ingressPath) fits(path string) bool {
	return path == p.Path || p.PathType == "Prefix" && strings.HasPrefix(path, strings.TrimSuffix(p.Path, "/")+"/")
}

// behind returns the URL of the Service that a path of an Ingress leads to, nil when there is none.
func (c *Cluster) behind(o *object, path ingressPath) *url.URL {
	to := path.Backend.Service
	service := id{"Service", o.Namespace, to.Name}
	if c.objects[service] == nil {
		return nil
	}
	scheme := "http"
	if o.Annotations[backendProtocol] == "HTTPS" {
		scheme = "https"
	}
	for _, port := range c.objects[service].service().Ports {
		if port.Port == to.Port.Number || port.Name != "" && port.Name == to.Port.Name {
			return &url.URL{Scheme: scheme, Host: c.services[service][port.Port].address()}
		}
	}
	return nil
}

// certificate returns the certificate of the Secret that an Ingress names for a host.
func (c *Cluster) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o, spec := range c.ingresses() {
		for _, entry := range spec.TLS {
			for _, host := range entry.Hosts {
				if host != hello.ServerName {
					continue
				}
				data, found := c.data("Secret", o.Namespace, entry.SecretName)
				if !found {
					return nil, fmt.Errorf("ingress %s: secret %q not found", o.Name, entry.SecretName)
				}
				pair, err := tls.X509KeyPair([]byte(data["tls.crt"]), []byte(data["tls.key"]))
				return &pair, err
			}
		}
	}
	return nil, fmt.Errorf("no ingress for the host %q", hello.ServerName)
}
