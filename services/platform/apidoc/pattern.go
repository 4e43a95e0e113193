package apidoc

// nameRule is the beginning of the rule of a name, which goes on with its other characters.
const nameRule = "must begin with a letter or digit and hold only letters, digits and "

// patterns are the patterns of the contracts in words, for people who don't read regular expressions.
var patterns = map[string]string{
	`^[A-Za-z0-9][A-Za-z0-9._-]*$`:            nameRule + ". _ -",
	`^[A-Za-z0-9][A-Za-z0-9_.-]*$`:            nameRule + "_ . -",
	`^[A-Za-z0-9][A-Za-z0-9_.:-]*$`:           nameRule + "_ . : -",
	`^[A-Za-z0-9][A-Za-z0-9_.:@-]*$`:          nameRule + "_ . : @ -",
	`^[A-Za-z0-9][A-Za-z0-9_.:/-]*$`:          nameRule + "_ . : / -",
	`^[A-Za-z0-9]([A-Za-z0-9_.:/-]|%2[Ff])*$`: nameRule + "_ . : / -",
	`^(\*|[A-Za-z0-9][A-Za-z0-9_.:/-]*(\.\*)?)$`: "must be a name of letters, digits and _ . : / - that begins with a letter or digit, " +
		"the beginning of one up to a dot and then *, such as order.*, or * alone for all",
	`^[a-z][a-z_]*$`: "must begin with a lower-case letter and hold only lower-case letters and _",
	`^switchyard\.[a-z0-9_]+(\.[a-z0-9_]+)*$`:  "must be switchyard. and then lower-case letters, digits, _ and single dots",
	`^[A-Za-z0-9_.:-]+$`:                       "must hold only letters, digits and _ . : -",
	`^[A-Za-z0-9_-]*$`:                         "must hold only letters, digits, _ and -",
	`^/[A-Za-z0-9/_.-]*$`:                      "must begin with / and hold only letters, digits and / _ . -",
	`^[A-Za-z]{2,3}([_-][A-Za-z0-9]{1,8})*$`:   "must be a language such as de, or a locale such as de-AT",
	`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`:             "must be a day such as 2026-01-31",
	`^(auto|[1-9][0-9]{1,4}x[1-9][0-9]{1,4})$`: "must be auto, or width and height such as 1024x768",
	`^[a-z][a-z0-9+.-]*:.+$`:                   "must be a scheme, a colon and what it names, such as env:NAME",
	`^[\x21\x23-\x5B\x5D-\x7E]+$`:              `must hold only printable ASCII without spaces, " and \`,
	`^[^\x00\r\n]*$`:                           "must be one line",
	`^[\x20-\x7E]+$`:                           "must hold only printable ASCII",
	`^[!-.0-~]+/[!-~]+$`:                       "must be a server, / and a tool, without spaces",
	`^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$`:         "must hold only letters, digits, - and single _ between them",
	`^[A-Za-z][A-Za-z0-9-]*$`:                  "must begin with a letter and hold only letters, digits and -",
	`^[a-z][a-z0-9_]{0,31}$`:                   "must begin with a lower-case letter and hold only lower-case letters, digits and _, at most 32",
	`^([CDGUW][A-Z0-9]{2,20})?$`:               "must be the id of a channel or person in Slack, such as C024BE91L",
	`^[0-9a-f]{64}$`:                           "must be a SHA-256 in 64 lower-case hexadecimal digits",
}

// PatternRule returns what a regular expression of a contract asks for, in words. It reports false for an unknown one.
func PatternRule(pattern string) (rule string, ok bool) {
	rule, ok = patterns[pattern]
	return rule, ok
}
