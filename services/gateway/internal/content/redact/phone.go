package redact

// Digits of a phone number. The maximum is E.164's; the minimum is that of small countries with their country code.
const (
	minInternational = 8
	maxPhone         = 15
	minNational      = 9
	maxNational      = 12
)

// phones finds numbers with a country code ("+" or "00"), with a trunk prefix ("0171 1234567"), and North American
// numbers in groups ("(415) 555-0132").
func phones(text string, found []span) []span {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c != '+' && c != '(' && !isDigit(c) || !beginsNumber(text, i) {
			continue
		}
		if to := phone(text, i); to > 0 {
			found = append(found, span{i, to, KindPhone})
			i = to - 1
		}
	}
	return found
}

// beginsNumber reports whether the text before i allows a number to begin at i.
func beginsNumber(text string, i int) bool {
	before := at(text, i-1)
	if isAlnum(before) || before == '_' || before == '+' {
		return false
	}
	inGroup := before == '.' || before == '-' || before == '/'
	return !inGroup || !isDigit(at(text, i-2))
}

// phone returns the end of the number that begins at i, or 0 if there is none.
func phone(text string, i int) int {
	plus := text[i] == '+'
	if plus {
		i++
	}
	n := readNumber(text, i)
	switch first, second := n.digits[0], n.digits[1]; {
	case n.groups == 0:
		return 0
	case plus && first != '0', !plus && first == '0' && second == '0' && n.digits[2] != '0':
		return n.within(minInternational, maxPhone)
	case plus:
		return 0
	case first == '0' && second != '0' && (n.size(0) >= 3 || n.groups >= 5 && n.size(0) == 2): // In pairs, as in France.
		return n.within(minNational, maxNational)
	}
	return n.northAmerican()
}

// number is a run of digits in groups.
type number struct {
	digits [maxPhone + 2]byte
	// counts holds the number of digits up to the end of each group, ends the offset of that end in the text.
	counts, ends [maxPhone + 2]int
	groups       int
}

// readNumber reads groups of digits with separators and brackets between them, up to the length of the longest phone
// number.
func readNumber(text string, i int) number {
	var n number
	count := 0
	for gap := 0; i < len(text) && gap < 3; {
		c, width := text[i], separator(text, i)
		switch {
		case isDigit(c) && count == len(n.digits):
			return n
		case isDigit(c):
			n.digits[count] = c
			count++
			gap = 0
			i++
			if !isAlnum(at(text, i)) {
				n.counts[n.groups], n.ends[n.groups] = count, i
				n.groups++
			}
			continue
		case isLetter(c):
			return n
		case c == '(' || c == ')':
			width = 1
		case width == 0:
			return n
		}
		i += width
		gap++
	}
	return n
}

// size returns the number of digits in a group.
func (n *number) size(group int) int {
	if group == 0 {
		return n.counts[0]
	}
	return n.counts[group] - n.counts[group-1]
}

// within returns the end of the longest run of groups that has between least and most digits, or 0 if there is none.
func (n *number) within(least, most int) int {
	for group := n.groups - 1; group >= 0; group-- {
		if n.counts[group] >= least && n.counts[group] <= most {
			return n.ends[group]
		}
	}
	return 0
}

// northAmerican returns the end of a number of the form 415-555-0132, with or without a 1 before it, or 0.
func (n *number) northAmerican() int {
	from := 0
	if n.digits[0] == '1' && n.size(0) == 1 {
		from = 1
	}
	if n.groups < from+3 || n.size(from) != 3 || n.size(from+1) != 3 || n.size(from+2) != 4 || n.digits[from] < '2' {
		return 0
	}
	return n.ends[from+2]
}
