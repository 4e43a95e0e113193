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
	// packed is the first byte of a packet that is an S2 block. Any other begins with
	// the size of its first part, which is small: with 0.
	packed = 1
	// maxPacket is how large a packet may be, in bytes; each of its texts is cut far
	// below it.
	maxPacket = 64 << 20
)

// head is what stands before the texts of a packet.
type head struct {
	Form     string            `json:"form"`
	Header   http.Header       `json:"header,omitzero"`
	Metadata map[string]string `json:"metadata,omitzero"`
}

// size is that of both texts, in bytes; 0 of no packet.
func (p *Packet) size() int {
	if p == nil {
		return 0
	}
	return len(p.Request) + len(p.Response)
}

// scratch is room for one packet after the other, before and after it is packed.
type scratch struct{ plain, block []byte }

// encode writes a packet's parts, each behind its size, so that both texts stay
// byte for byte what they were, and packs them where that makes them shorter. It
// leaves room before and behind.
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
			return nil, errors.New("a packet can't be unpacked")
		}
		if text, err = s2.Decode(nil, text[1:]); err != nil {
			return nil, fmt.Errorf("unpack packet: %w", err)
		}
	}
	var parts [3][]byte
	for i := range parts {
		if len(text) < 4 {
			return nil, errors.New("a packet breaks off")
		}
		size := uint64(binary.BigEndian.Uint32(text))
		if text = text[4:]; uint64(len(text)) < size {
			return nil, errors.New("a packet breaks off")
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
