package reference

import (
	"encoding/json"
	"fmt"
	"regexp"

	"switchyard.dev/services/edge/internal/route"
)

// recipe is a call of a route as a curl line. Its path has variables of the shell.
type recipe struct{ Method, Path, Text string }

type recipes []recipe

func readRecipes(text []byte) (all recipes, err error) {
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("recipes: %w", err)
	}
	return all, nil
}

// placeholder matches a parameter of a route's path that was quoted for a regular expression.
var placeholder = regexp.MustCompile(`\\\{[a-z_]+(\\\.\\\.\\\.)?\\\}`)

// of returns the shortest recipe of a route; empty if it has none. A parameter is a variable or the sandbox's model.
func (all recipes) of(r route.Route) (text string) {
	form := regexp.MustCompile("^" + placeholder.ReplaceAllString(regexp.QuoteMeta(r.Path), `(?:\$$[A-Z_]+|sandbox)`) + "$")
	for _, of := range all {
		if of.Method == r.Method && form.MatchString(of.Path) && (text == "" || len(of.Text) < len(text)) {
			text = of.Text
		}
	}
	return text
}
