package service

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"switchyard.dev/services/platform/apidoc"
)

// index says what a face is and where its open paths are.
type index struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Documents string `json:"documents"` // for people
	OpenAPI   string `json:"openapi"`
	Health    string `json:"health"`
	Ready     string `json:"ready"`
	Metrics   string `json:"metrics"`
}

// index returns the handler of GET /: it sends browsers to the documents, and answers other clients with the index.
func (s *Service) index() (http.Handler, error) {
	body, err := json.Marshal(index{
		Name: s.Name, Version: s.Version, Documents: apidoc.PagePath, OpenAPI: apidoc.DocumentPath,
		Health: healthPath, Ready: readyPath, Metrics: metricsPath,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the index: %w", err)
	}
	document := apidoc.Fixed("application/json", append(body, '\n'))
	documents := http.RedirectHandler(apidoc.PagePath, http.StatusSeeOther)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			documents.ServeHTTP(w, r)
			return
		}
		document.ServeHTTP(w, r)
	}), nil
}
