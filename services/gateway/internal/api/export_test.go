package api

// ToText gives tests the reading of a JSON string.
var ToText = toText
