package kube

import (
	"encoding"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// A shape says what is kept of a JSON value. Nil keeps nothing. A value that is neither an object nor an array is
// kept wherever there is a shape.
type shape struct {
	whole  bool              // all of it, whatever it is
	fields map[string]*shape // of an object
	each   *shape            // of the values of an array, or of an object with any keys
	clip   int               // of a text, so many characters of its beginning; 0: all
	ends   bool              // and as many of its end
}

var shapes sync.Map // of *shape, by reflect.Type

// shapeOf returns what is kept of JSON that is decoded into a T: the fields that T has. A tag clip:"1024" on a text
// keeps its beginning, clip:"1024,ends" its beginning and its end.
func shapeOf[T any]() *shape {
	t := reflect.TypeFor[T]()
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	made := shapeOfType(t, map[reflect.Type]*shape{})
	shapes.Store(t, made)
	return made
}

// shapeOfType makes the shape of a type; begun has those of the types around it, for one that contains itself.
func shapeOfType(t reflect.Type, begun map[reflect.Type]*shape) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s := begun[t]; s != nil {
		return s
	}
	s := &shape{}
	p := reflect.PointerTo(t)
	switch kind := t.Kind(); {
	case p.Implements(reflect.TypeFor[json.Unmarshaler]()), p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()), kind == reflect.Interface:
		s.whole = true
	case kind == reflect.Struct:
		begun[t] = s
		s.fields = map[string]*shape{}
		s.addFields(t, begun)
		delete(begun, t)
	case kind == reflect.Map, kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8, kind == reflect.Array:
		s.each = shapeOfType(t.Elem(), begun)
	}
	return s
}

// addFields adds the fields of a struct, those of embedded ones among them, as encoding/json names them.
func (s *shape) addFields(t reflect.Type, begun map[reflect.Type]*shape) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			s.addFields(f.Type, begun)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		of := shapeOfType(f.Type, begun)
		if n, how, _ := strings.Cut(f.Tag.Get("clip"), ","); n != "" {
			clip, err := strconv.Atoi(n)
			if err != nil {
				panic("the tag clip of " + t.String() + "." + f.Name + " has no number")
			}
			of = &shape{clip: clip, ends: how == "ends"}
		}
		s.fields[name] = of
	}
}

// or returns what keeps all that one of the two keeps. Texts are clipped as s clips them.
func (s *shape) or(t *shape) *shape {
	switch {
	case s == nil:
		return t
	case t == nil:
		return s
	}
	both := *s
	both.whole = s.whole || t.whole
	both.each = s.each.or(t.each)
	if s.fields != nil || t.fields != nil {
		both.fields = map[string]*shape{}
		for name, of := range s.fields {
			both.fields[name] = of.or(t.fields[name])
		}
		for name, of := range t.fields {
			both.fields[name] = s.fields[name].or(of)
		}
	}
	return &both
}

// Errors of a sieve.
var (
	errJSON  = errors.New("the answer is not JSON")
	errDepth = errors.New("the answer is nested too deeply")
)

const (
	deepest = 1_000
	longest = 512 // bytes of a number
	gap     = " […] "
)

// A sieve reads JSON as it comes and keeps what a shape says. What it leaves out never stands in memory, however
// long it is: whoever may create an object chooses how long its texts are, up to the megabyte and a half that etcd takes.
type sieve struct {
	from io.Reader
	buf  []byte
	pos  int // of the next byte
	mark int // with copying, what begins here and is not in out yet
	copy bool
	out  []byte // what is kept
	more int    // bytes that it takes beyond its text when it is decoded, roughly
}

// weight returns how much memory what is kept takes when it is decoded, roughly: an object of few bytes may be a struct
// of many, and an entry of a map takes more than its text.
func (s *sieve) weight() int { return len(s.out) + s.more }

// What is taken beyond the text.
const (
	ofObject  = 64
	ofEntry   = 96
	ofElement = 16
)

func newSieve(from io.Reader) *sieve { return &sieve{from: from, buf: make([]byte, 0, 32<<10)} }

// fill reads on when all of the buffer is used.
func (s *sieve) fill() error {
	if s.copy {
		s.out = append(s.out, s.buf[s.mark:]...)
		s.mark = 0
	}
	s.pos = 0
	for empty := 0; ; empty++ {
		n, err := s.from.Read(s.buf[:cap(s.buf)])
		s.buf = s.buf[:n]
		if n > 0 {
			return nil // an error comes again
		}
		if err != nil {
			return err
		}
		if empty == 100 {
			return io.ErrNoProgress
		}
	}
}

// peek returns the next byte. Inside a value, the end of the text is unexpected.
func (s *sieve) peek() (byte, error) {
	if s.pos == len(s.buf) {
		if err := s.fill(); err == io.EOF {
			return 0, io.ErrUnexpectedEOF
		} else if err != nil {
			return 0, err
		}
	}
	return s.buf[s.pos], nil
}

// take returns the next byte and passes it.
func (s *sieve) take() (byte, error) {
	c, err := s.peek()
	s.pos++
	return c, err
}

// token returns the first byte that is not white space.
func (s *sieve) token() (byte, error) {
	for {
		c, err := s.peek()
		if err != nil || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c, err
		}
		s.pos++
	}
}

// over reports whether nothing but white space is left.
func (s *sieve) over() (bool, error) {
	for {
		if s.pos == len(s.buf) {
			if err := s.fill(); err == io.EOF {
				return true, nil
			} else if err != nil {
				return false, err
			}
		}
		if c := s.buf[s.pos]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return false, nil
		}
		s.pos++
	}
}

// expect passes one byte, which it has to be.
func (s *sieve) expect(want byte) error {
	c, err := s.token()
	if err != nil {
		return err
	}
	if c != want {
		return errJSON
	}
	s.pos++
	return nil
}

// copied copies what read passes.
func (s *sieve) copied(read func() error) error {
	s.mark, s.copy = s.pos, true
	err := read()
	s.copy = false
	s.out = append(s.out, s.buf[min(s.mark, s.pos):min(s.pos, len(s.buf))]...)
	return err
}

// sift returns what the shape keeps of the next value. It is good until the next call.
func (s *sieve) sift(of *shape) ([]byte, error) {
	s.out, s.more = s.out[:0], 0
	if _, err := s.token(); err != nil {
		return nil, err
	}
	err := s.value(of, 0)
	return s.out, err
}

// value passes a value and keeps of it what the shape says. Inside of what is copied there is no shape.
func (s *sieve) value(of *shape, depth int) error {
	c, err := s.token()
	switch {
	case err != nil:
		return err
	case depth > deepest:
		return errDepth
	case of != nil && of.whole:
		return s.copied(func() error { return s.value(nil, depth) })
	case c == '{':
		return s.object(of, depth)
	case c == '[':
		return s.array(of, depth)
	case of == nil && c == '"':
		return s.text()
	case of == nil:
		return s.word()
	case c == '"' && of.clip > 0:
		return s.clipped(of)
	case c == '"':
		return s.copied(s.text)
	}
	return s.copied(s.word)
}

func (s *sieve) object(of *shape, depth int) error {
	keep := of != nil && (of.fields != nil || of.each != nil)
	if of != nil && !keep {
		s.out = append(s.out, "null"...) // a field of another type, as lenient forgives it
	}
	put := func(text ...byte) {
		if keep {
			s.out = append(s.out, text...)
		}
	}
	s.pos++
	put('{')
	if keep {
		s.more += ofObject
	}
	first := true
	err := s.members(func() error {
		begin := len(s.out)
		if keep && !first {
			s.out = append(s.out, ',')
		}
		if !keep {
			if err := s.text(); err != nil {
				return err
			}
			if err := s.expect(':'); err != nil {
				return err
			}
			return s.value(nil, depth+1)
		}
		at := len(s.out)
		if err := s.copied(s.text); err != nil {
			return err
		}
		next := of.each
		if of.fields != nil {
			next = of.fields[keyOf(s.out[at:])]
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		if next == nil {
			s.out = s.out[:begin]
			return s.value(nil, depth+1)
		}
		if first = false; of.fields == nil {
			s.more += ofEntry
		}
		s.out = append(s.out, ':')
		return s.value(next, depth+1)
	})
	put('}')
	return err
}

// keyOf returns the key that a JSON text is.
func keyOf(text []byte) string {
	key := text[1 : len(text)-1]
	for _, c := range key {
		if c == '\\' {
			var k string
			if json.Unmarshal(text, &k) != nil {
				return ""
			}
			return k
		}
	}
	return string(key)
}

// members calls read with each key of an object whose bracket is passed; read passes key and value.
func (s *sieve) members(read func() error) error {
	for n := 0; ; n++ {
		c, err := s.token()
		switch {
		case err != nil:
			return err
		case c == '}' && n == 0:
			s.pos++
			return nil
		case c != '"':
			return errJSON
		}
		if err := read(); err != nil {
			return err
		}
		if done, err := s.comma('}'); done || err != nil {
			return err
		}
	}
}

// elements calls read before each element of an array whose bracket is passed; read passes it.
func (s *sieve) elements(read func() error) error {
	for n := 0; ; n++ {
		c, err := s.token()
		if err != nil {
			return err
		}
		if c == ']' && n == 0 {
			s.pos++
			return nil
		}
		if err := read(); err != nil {
			return err
		}
		if done, err := s.comma(']'); done || err != nil {
			return err
		}
	}
}

// comma passes a comma, or the bracket that ends what it stands in.
func (s *sieve) comma(end byte) (done bool, err error) {
	switch c, err := s.token(); {
	case err != nil:
		return false, err
	case c == end:
		s.pos++
		return true, nil
	case c != ',':
		return false, errJSON
	}
	s.pos++
	return false, nil
}

func (s *sieve) array(of *shape, depth int) error {
	var each *shape
	if of != nil {
		if each = of.each; each == nil {
			s.out = append(s.out, "null"...)
		}
	}
	s.pos++
	if each == nil {
		return s.elements(func() error { return s.value(nil, depth+1) })
	}
	s.out = append(s.out, '[')
	first := true
	err := s.elements(func() error {
		if !first {
			s.out = append(s.out, ',')
		}
		first = false
		s.more += ofElement
		return s.value(each, depth+1)
	})
	s.out = append(s.out, ']')
	return err
}

// word passes a number, true, false or null.
func (s *sieve) word() error {
	var word []byte
	for {
		if s.pos == len(s.buf) {
			if err := s.fill(); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
		}
		c := s.buf[s.pos]
		if c <= ' ' || c == ',' || c == ']' || c == '}' || c == ':' || c == '"' {
			break
		}
		if word = append(word, c); len(word) > longest {
			return errJSON
		}
		s.pos++
	}
	if !json.Valid(word) {
		return errJSON
	}
	return nil
}

// text passes a text in quotes.
func (s *sieve) text() error {
	s.pos++
	return s.unquote()
}

// unquote passes what is left of a text, with the quote that ends it.
func (s *sieve) unquote() error {
	for {
		if s.pos == len(s.buf) {
			if _, err := s.peek(); err != nil {
				return err
			}
		}
		for s.pos < len(s.buf) {
			c := s.buf[s.pos]
			s.pos++
			switch {
			case c == '"':
				return nil
			case c == '\\':
				if err := s.escape(nil); err != nil {
					return err
				}
			case c < ' ':
				return errJSON
			}
		}
	}
}

// escape passes what follows a backslash, and adds it to one of the texts if there is one.
func (s *sieve) escape(to *[]byte) error {
	c, err := s.take()
	if err != nil {
		return err
	}
	if to != nil {
		*to = append(*to, '\\', c)
	}
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
	default:
		return errJSON
	}
	for range 4 {
		if c, err = s.take(); err != nil {
			return err
		}
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return errJSON
		}
		if to != nil {
			*to = append(*to, c)
		}
	}
	return nil
}

// clipped passes a text, and keeps its beginning or its ends. Each escape and each byte counts as one character, so
// that what is kept has at least so many bytes when it is decoded. No rune is cut in two.
func (s *sieve) clipped(of *shape) error {
	s.pos++
	s.out = append(s.out, '"')
	var older, newer []byte // the last characters, in blocks
	to, n, lost := &s.out, 0, false
	for {
		c, err := s.take()
		switch {
		case err != nil:
			return err
		case c == '"':
			if lost {
				s.out = append(s.out, gap...)
			}
			s.out = append(append(append(s.out, older...), newer...), '"')
			return nil
		case c < ' ':
			return errJSON
		}
		if n >= of.clip && utf8.RuneStart(c) {
			if !of.ends {
				s.pos--
				err := s.unquote()
				s.out = append(s.out, '"')
				return err
			}
			if to == &newer {
				lost = lost || len(older) > 0
				older, newer = newer, older[:0]
			}
			to, n = &newer, 0
		}
		n++
		if c == '\\' {
			err = s.escape(to)
		} else {
			*to = append(*to, c)
		}
		if err != nil {
			return err
		}
	}
}
