package host

import "testing"

func TestOf(t *testing.T) {
	for _, c := range []struct{ name, baseURL, want, convention string }{
		{"mine", "https://api.openai.com/v1", "openai", "openai"},
		{"mine", "https://x.openai.azure.com/openai", "azure", "azure.ai.openai"},
		{"mine", "https://bedrock-mantle.us-east-1.api.aws/v1", "bedrock", "aws.bedrock"},
		{"mine", "https://us-east5-aiplatform.googleapis.com", "vertex_ai", "gcp.vertex_ai"},
		{"mine", "https://aiplatform.googleapis.com", "vertex_ai", "gcp.vertex_ai"},
		{"mine", "https://ec2-1-2-3-4.compute.amazonaws.com", "", ""},
		{"mine", "https://api.openai.com.evil.example", "", ""},
		{"mine", "https://notopenrouter.ai", "", ""},
		{"mine", "::", "", ""},
		{"openai", "http://127.0.0.1:8000", "openai", "openai"},
		{"vertex", "", "vertex_ai", "gcp.vertex_ai"},
		{"sandbox", "", "", ""},
	} {
		got := Of(c.name, c.baseURL)
		if got.Name != c.want || got.Convention != c.convention {
			t.Errorf("Of(%s, %s) = %q, %q, want %q, %q", c.name, c.baseURL, got.Name, got.Convention, c.want, c.convention)
		}
	}
}
