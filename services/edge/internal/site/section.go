package site

import (
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// section is a heading of a document with the text that follows it, up to the next one.
type section struct {
	ID, Title, Text string
	Level           int
}

// inline are the elements of rendered documents that don't separate words.
var inline = map[atom.Atom]bool{atom.A: true, atom.Code: true, atom.Em: true, atom.Strong: true, atom.Span: true, atom.Del: true}

// sections divides the HTML of a document. Texts have single spaces.
func sections(body string) ([]section, error) {
	var all []section
	var text strings.Builder
	flush := func(into *string) {
		*into = strings.Join(strings.Fields(text.String()), " ")
		text.Reset()
	}
	for tokens := html.NewTokenizer(strings.NewReader(body)); ; {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			if err := tokens.Err(); !errors.Is(err, io.EOF) {
				return nil, err
			}
			break
		}
		token := tokens.Token()
		level := headingLevels[token.DataAtom]
		switch {
		case kind == html.TextToken:
			text.WriteString(token.Data)
		case level > 0 && kind == html.StartTagToken:
			if len(all) > 0 {
				flush(&all[len(all)-1].Text)
			}
			text.Reset()
			all = append(all, section{ID: idOf(token), Level: level})
		case level > 0 && kind == html.EndTagToken && len(all) > 0:
			flush(&all[len(all)-1].Title)
		case !inline[token.DataAtom]:
			text.WriteByte(' ')
		}
	}
	if len(all) > 0 {
		flush(&all[len(all)-1].Text)
	}
	return all, nil
}

// headingLevels are the levels of the headings.
var headingLevels = map[atom.Atom]int{atom.H1: 1, atom.H2: 2, atom.H3: 3, atom.H4: 4, atom.H5: 5, atom.H6: 6}

func idOf(token html.Token) string {
	for _, a := range token.Attr {
		if a.Key == "id" {
			return a.Val
		}
	}
	return ""
}
