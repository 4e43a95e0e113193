package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/klauspost/compress/s2"
)

const (
	// packed is the first byte of a packet that is an S2 block. Any other packet begins with the size of its first
	// part, whose first byte is 0 because that part is small.
	packed = 1
	// maxPacket is the most bytes of an unpacked packet. Each of its texts is cut far below it.
	maxPacket = 64 << 20
)

// head is the first part of a packet; the two texts follow it.
type head struct {
	Form     string            `json:"form"`
	Header   http.Header       `json:"header,omitzero"`
	Metadata map[string]string `json:"metadata,omitzero"`
}

// size returns the size of both texts, in bytes; 0 for nil.
func (p *Packet) size() int {
	if p == nil {
		return 0
	}
	return len(p.Request) + len(p.Response)
}

// scratch holds buffers that are used for one packet after the other.
type scratch struct{ plain, block []byte }

// encode returns a packet's parts, each after its size, so that both texts stay byte for byte what they were; they are
// packed where that is shorter. The result has before zero bytes at its start, and capacity for behind more at its end.
func (p *Packet) encode(room *scratch, before, behind int) ([]byte, error) {
	first, err := json.Marshal(head{p.Form, p.Header, p.Metadata})
	if err != nil {
		return nil, fmt.Errorf("encode packet: %w", err)
	}
	plain := room.plain[:0]
	for _, part := range [][]byte{first, p.Request, p.Response} {
		plain = append(binary.BigEndian.AppendUint32(plain, uint32(len(part))), part...)
	}
	block := s2.Encode(room.block[:cap(room.block)], plain)
	room.plain, room.block = plain, block
	out := make([]byte, before, before+1+min(len(block), len(plain))+behind)
	if len(block) < len(plain) {
		return append(append(out, packed), block...), nil
	}
	return append(out, plain...), nil
}

func decode(text []byte) (*Packet, error) {
	if len(text) > 0 && text[0] == packed {
		size, err := s2.DecodedLen(text[1:])
		if err != nil || size > maxPacket {
			return nil, errors.New("the packet is not a valid S2 block")
		}
		if text, err = s2.Decode(nil, text[1:]); err != nil {
			return nil, fmt.Errorf("unpack packet: %w", err)
		}
	}
	var parts [3][]byte
	for i := range parts {
		if len(text) < 4 {
			return nil, errors.New("the packet is shorter than its sizes")
		}
		size := uint64(binary.BigEndian.Uint32(text))
		if text = text[4:]; uint64(len(text)) < size {
			return nil, errors.New("the packet is shorter than its sizes")
		}
		parts[i], text = bytes.Clone(text[:size]), text[size:]
	}
	var first head
	if err := json.Unmarshal(parts[0], &first); err != nil {
		return nil, fmt.Errorf("decode packet: %w", err)
	}
	p := &Packet{Form: first.Form, Header: first.Header, Metadata: first.Metadata}
	if len(parts[1]) > 0 {
		p.Request = parts[1]
	}
	if len(parts[2]) > 0 {
		p.Response = parts[2]
	}
	return p, nil
}
