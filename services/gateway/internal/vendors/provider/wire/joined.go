package wire

// Joined puts texts together in time that grows with their sum. A single one, which
// is the usual case, is kept as it is. The zero value is empty.
type Joined struct {
	one  string
	more []byte // all of them, once there are several
}

// Add appends a text.
func (j *Joined) Add(text string) {
	switch {
	case text == "":
	case j.more != nil:
		j.more = append(j.more, text...)
	case j.one == "":
		j.one = text
	default:
		j.more = append(append(make([]byte, 0, 2*(len(j.one)+len(text))), j.one...), text...)
	}
}

// Empty reports whether nothing was added but empty texts.
func (j *Joined) Empty() bool { return j.one == "" }

// String is all that was added. It copies several texts: it is for the end.
func (j *Joined) String() string {
	if j.more != nil {
		return string(j.more)
	}
	return j.one
}
