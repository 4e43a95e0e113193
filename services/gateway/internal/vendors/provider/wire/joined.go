package wire

// Joined concatenates texts in time proportional to their total length. A single text, which is the usual case, is not
// copied. The zero value is empty.
type Joined struct {
	one  string
	more []byte // all texts, once there are several
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

// Empty reports whether only empty texts were added.
func (j *Joined) Empty() bool { return j.one == "" }

// String returns everything that was added. It copies several texts, so call it once at the end.
func (j *Joined) String() string {
	if j.more != nil {
		return string(j.more)
	}
	return j.one
}
