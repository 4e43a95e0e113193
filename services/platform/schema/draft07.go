package schema

// later are keywords that draft-07 doesn't know, and therefore ignores. $defs is none of them: references lead into it.
var later = []string{
	"$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary", "prefixItems", "minContains",
	"maxContains", "dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "contentSchema",
}

// modernize gives the keywords of an object of draft-07 the names that have their meaning in draft 2020-12. It leaves its
// subschemas as they are. References into what gets another name (/items/0, /dependencies/a) lead nowhere from then on.
func modernize(object map[string]any) {
	if _, ok := object["$ref"]; ok { // What stands beside it doesn't count there.
		for keyword := range object {
			switch keyword {
			case "$ref", "$schema", "$id", "definitions", "$defs":
			default:
				delete(object, keyword)
			}
		}
		return
	}
	for _, keyword := range later {
		delete(object, keyword)
	}
	rest, hasRest := object["additionalItems"]
	delete(object, "additionalItems")
	if list, ok := object["items"].([]any); ok {
		delete(object, "items")
		object["prefixItems"] = list
		if hasRest {
			object["items"] = rest
		}
	}
	dependencies, ok := object["dependencies"].(map[string]any)
	if !ok {
		return
	}
	delete(object, "dependencies")
	required, schemas := make(map[string]any), make(map[string]any)
	for name, value := range dependencies {
		if _, list := value.([]any); list {
			required[name] = value
		} else {
			schemas[name] = value
		}
	}
	object["dependentRequired"], object["dependentSchemas"] = required, schemas
}
