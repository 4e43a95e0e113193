package api

import (
	"net/http"
	"net/url"
	"strings"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/platform/rpc"
)

// The paths of Azure's form of OpenAI's API, whose SDK has the model in the path. Source: Azure OpenAI REST API reference.
const (
	azureRoot       = "/openai/"
	azureDeployment = azureRoot + "deployments/{model}"
)

// headerDeployment names the model of a body that names none: the deployment in a path of Azure's.
const headerDeployment = "X-Switchyard-Deployment"

// dialectAzure is the dialect of Azure's paths at the edge. Its bodies are OpenAI's.
const dialectAzure = "azure"

// mountAzure registers the paths that AzureOpenAI clients call. The version in their query has no meaning here.
func (s *inferenceServer) mountAzure(server *rpc.Server) {
	const chat, embed = gatewayv1.InferenceService_Chat_FullMethodName, gatewayv1.InferenceService_Embed_FullMethodName
	server.Handle("POST", azureDeployment+"/chat/completions", chat, deployed(s.serveDialect(openai.Dialect{})))
	server.Handle("POST", azureDeployment+"/embeddings", embed, deployed(s.embeddingsOf))
	server.Handle("POST", azureDeployment+"/images/generations", gatewayv1.InferenceService_GenerateImages_FullMethodName, deployed(s.serveImages))
	for _, call := range relays {
		path, ok := strings.CutPrefix(call.path, "/v1")
		if !ok || !isRelayOfOpenAI(call.path) {
			continue
		}
		mount := server.Handle
		if call.takesForm {
			mount = server.HandleForm
		}
		mount("POST", azureDeployment+path, call.method, deployed(func(w http.ResponseWriter, r *http.Request) error {
			return s.serveRelay(w, r, call)
		}))
	}
}

// deployed serves a request in OpenAI's form whose path names the model.
func deployed(serve func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		name := r.PathValue("model")
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
		r.Header.Set(headerDeployment, name)
		r.Header.Set(headerDialect, dialectOpenAI)
		return serve(w, r)
	}
}
