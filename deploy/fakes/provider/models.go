package provider

import (
	"net/http"
	"time"
)

// The models that the fake lists. It accepts any other name too.
var (
	openAIModels    = []string{"gpt-4o", "gpt-4o-mini", "o3-mini", "text-embedding-3-small", "text-embedding-3-large", "gpt-image-1", "dall-e-3"}
	anthropicModels = []string{"claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-1"}
)

type openAIModelList struct {
	Object string        `json:"object"`
	Data   []openAIModel `json:"data"`
}

type openAIModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

type anthropicModelList struct {
	Data    []anthropicModel `json:"data"`
	FirstID string           `json:"first_id"`
	HasMore bool             `json:"has_more"`
	LastID  string           `json:"last_id"`
}

type anthropicModel struct {
	Type        string    `json:"type"`
	ID          string    `json:"id"`
	DisplayName string    `json:"display_name"`
	CreatedAt   time.Time `json:"created_at"`
}

// models answers GET /v1/models in the dialect that the caller's headers indicate.
func models(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "" && r.Header.Get("X-Api-Key") == "" && r.Header.Get("Api-Key") == "" {
		fail(w, r, http.StatusUnauthorized, "")
		return
	}
	if !speaksAnthropic(r) {
		list := openAIModelList{Object: "list"}
		for _, name := range openAIModels {
			list.Data = append(list.Data, openAIModel{ID: name, Object: "model", Created: created, OwnedBy: "system"})
		}
		writeJSON(w, http.StatusOK, list)
		return
	}
	list := anthropicModelList{FirstID: anthropicModels[0], LastID: anthropicModels[len(anthropicModels)-1]}
	for _, name := range anthropicModels {
		list.Data = append(list.Data, anthropicModel{
			Type: "model", ID: name, DisplayName: name, CreatedAt: time.Unix(created, 0).UTC(),
		})
	}
	writeJSON(w, http.StatusOK, list)
}
