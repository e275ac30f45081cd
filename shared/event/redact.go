package event

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"sync"
	"unicode/utf8"
)

// hidden has no byte that a secret could have, so redacting twice changes nothing.
const hidden = "***"

// Redact returns the text without the secrets that the controller's errors can hold: signatures, keys and tokens of signed URLs,
// headers and SDK dumps, in plain and percent-encoded form, access key IDs, bearer tokens, JSON web tokens, private keys, NATS seeds,
// passwords in URLs, addresses of chats' hooks and RAM's encoded diagnoses. It takes linear time, and redacting twice is the same as
// once.
func Redact(s string) string { return redactFrom(s, 0) }

// Addresses returns the addresses of a list of NATS URLs without user, password, token and query.
func Addresses(list string) string {
	var hosts []string
	for _, raw := range strings.Split(list, ",") {
		raw = strings.TrimSpace(raw)
		if !strings.Contains(raw, "://") {
			raw = "nats://" + raw
		}
		u, err := url.Parse(raw)
		if err != nil {
			hosts = append(hosts, "an address that is not a URL")
			continue
		}
		hosts = append(hosts, u.Scheme+"://"+u.Host)
	}
	return strings.Join(hosts, ",")
}

// Safe returns an error whose text holds no secret.
func Safe(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := Redact(text); clean != text {
		return &redacted{err, clean}
	}
	return err
}

type redacted struct {
	error
	text string
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Unwrap() error { return r.error }

// redactFrom returns s[begin:] redacted, including a secret whose mark is before begin.
func redactFrom(s string, begin int) string {
	hits := secrets().find([]byte(s))
	if len(hits) == 0 {
		return s[begin:]
	}
	var out strings.Builder
	done, written := 0, begin // position up to which the text is searched, and written
	for _, h := range hits {
		if int(h.start) < done {
			continue
		}
		from, to := secretMarks[h.pattern].find(s, int(h.start), int(h.end))
		if from == to {
			continue
		}
		if done = to; done <= begin {
			continue
		}
		out.WriteString(s[written:max(written, from)])
		out.WriteString(hidden)
		written = done
	}
	if written == begin {
		return s[begin:]
	}
	out.WriteString(s[written:])
	return out.String()
}

// Clip returns at most n bytes of a text, valid and with a mark where it was cut.
func Clip(s string, n int) string {
	const mark = " […]"
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= n {
		return s
	}
	end := n - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}

// mostQuoted is in bytes.
const mostQuoted = 200

// Quote returns the beginning of an answer for the end of an error, on one line and without secrets; empty for none.
func Quote(said []byte) string {
	if text := Line(string(said), mostQuoted); text != "" {
		return fmt.Sprintf(": %q", text)
	}
	return ""
}

// Line returns a text as one line of at most n bytes, without secrets, even those across two lines.
func Line(s string, n int) string {
	return Clip(Redact(strings.Join(strings.Fields(strings.ToValidUTF8(Redact(s), "?")), " ")), n)
}

// Abridge returns Cut(Redact(s)) in bounded time: of a text longer than any error it reads only both ends. The result is the same
// unless they hold hardly more than secrets.
func Abridge(s string) string {
	if len(s) <= 2*window {
		return Cut(Redact(s))
	}
	head := Redact(s[:window])
	head = head[:max(0, len(head)-unsure)]
	return Cut(head + gap + redactFrom(s[len(s)-window:], window-MaxMessage))
}

const (
	// window is how much Abridge reads at either end. A secret of at most 24 KiB that reaches into the visible end begins in it.
	window = 4 * MaxMessage
	// unsure is how much is hidden before a cut, where a secret cut in two may not be recognised; userinfo looks ahead less.
	unsure = 1 << 10
)

// A secretMark is a text in lower case that announces a secret. find returns the position of the secret that belongs to the mark
// s[start:end], or two equal numbers.
type secretMark struct {
	text string
	find func(s string, start, end int) (from, to int)
}

// secretMarks are tried by length: the longest name that ends at a position comes first.
var secretMarks = []secretMark{
	{"accesskeyid", named}, {"access_key_id", named}, {"access-key-id", named}, {"accesskey-id", named},
	{"accesskeysecret", named}, {"access_key_secret", named}, {"access-key-secret", named}, {"accesssecret", named},
	{"secretkey", named}, {"secret_key", named}, {"secret-key", named}, {"client-key-data", named},
	{"securitytoken", named}, {"security_token", named}, {"security-token", named},
	{"appsecret", named}, {"app_secret", named}, {"app-secret", named},
	{"sessiontoken", named}, {"session_token", named}, {"session-token", named},
	{"ststoken", named}, {"sts_token", named}, {"sts-token", named},
	{"signature", named}, {"encodeddiagnosticmessage", named}, {"password", named}, {"passwd", named},
	{"credential", assigned}, {"secret", assigned}, {"token", assigned}, {"apikey", assigned}, {"api_key", assigned},
	{"ticket", parameter}, {"key", urlParameter},
	{"authorization", authorization},
	{"bearer ", token{others: "._~+/=-", least: 8, prose: 24, whole: true}.find},
	// Access key IDs: the last two are of the security token service.
	{"ltai", token{mark: "LTAI", least: 8}.find},
	{"sts.", token{mark: "STS.", least: 16, prose: math.MaxInt}.find},
	{"tmp.", token{mark: "TMP.", least: 16, prose: math.MaxInt}.find},
	// JSON web tokens, by the beginning of their JSON in base64.
	{"eyj", token{mark: "eyJ", others: "._-", least: 13, whole: true, all: true}.find},
	{"su", seed}, {"sa", seed}, {"so", seed}, {"sn", seed}, {"sc", seed}, {"sx", seed},
	{"hooks.slack.com/", hook},
	{"://", userinfo},
	{"-----begin", privateKey},
}

var secrets = sync.OnceValue(func() *automaton {
	var marks []string
	for _, m := range secretMarks {
		marks = append(marks, m.text)
	}
	return newAutomaton(marks)
})

// named finds the value of a name that only a secret has: name=value, "name":"value", name: value, Name:[value], name%3Dvalue.
func named(s string, start, end int) (from, to int) {
	v := separator(s, end)
	// Before a colon, the end of another word, such as an error code, does not count.
	if v.sep == 0 || v.sep == ':' && !v.quoted && start > 0 && letter(s[start-1]) {
		return 0, 0
	}
	return content(s, v)
}

// assigned finds the value of a name that prose uses too: only whole words, in name=value or "name":"value", or in name: value if it
// begins a line, as in YAML, or if the value looks only like a secret.
func assigned(s string, start, end int) (from, to int) {
	if inWord(s, start) {
		return 0, 0
	}
	v := separator(s, end)
	// The end of a quoted path is not a name: Put "http://100.100.100.200/latest/api/token": EOF.
	if v.sep == 0 || v.sep == ':' && start > 0 && s[start-1] == '/' {
		return 0, 0
	}
	from, to = content(s, v)
	if v.sep == ':' && !v.quoted && !beginsLine(s, start) && !random(s[from:to]) {
		return 0, 0
	}
	return from, to
}

// beginsLine ignores YAML's indentation.
func beginsLine(s string, i int) bool {
	first := max(0, i-64)
	for i > first && (letterOrDigit(s[i-1]) || s[i-1] == '_' || s[i-1] == '-') {
		i--
	}
	for i > first && (s[i-1] == ' ' || s[i-1] == '-') {
		i--
	}
	return i == 0 || s[i-1] == '\n' || i > 1 && s[i-2:i] == `\n` // the latter in a log
}

// longest is the number of letters and digits from which a value is a secret. The time of Redact is linear because of it: after a value
// that is not a secret the next mark in it is tried, which may read the same text. Hiding a secret adds no letter or digit.
const longest = 256

// random reports whether a text looks like a key: it has letters and digits, and letters of both cases if it has hyphens or similar.
// Longer texts than words are keys too.
func random(s string) bool {
	var upper, lower, digits int
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'A' && c <= 'Z':
			upper++
		case c >= 'a' && c <= 'z':
			lower++
		case c >= '0' && c <= '9':
			digits++
		}
	}
	known := upper + lower + digits
	return known >= longest || len(s) >= 16 && digits > 0 && (upper > 0 && lower > 0 || known > digits && known == len(s))
}

// parameter finds the value of a name that marks a secret only in name=value.
func parameter(s string, start, end int) (from, to int) {
	if v := separator(s, end); !inWord(s, start) && (v.sep == '=' || v.sep == '%') {
		return content(s, v)
	}
	return 0, 0
}

// urlParameter finds the value of a name that marks a secret only in a URL's query.
func urlParameter(s string, start, end int) (from, to int) {
	before := s[max(0, start-5):start]
	for _, mark := range [...]string{"?", "&", "%3f", "%26", "%253f", "%2526"} {
		if n := len(before) - len(mark); n >= 0 && strings.EqualFold(before[n:], mark) {
			return parameter(s, start, end)
		}
	}
	return 0, 0
}

// seed finds a NATS seed: two letters for its kind, and 56 digits in base 32.
func seed(s string, start, end int) (from, to int) {
	const length = 58
	if inWord(s, start) || len(s)-start < length {
		return 0, 0
	}
	for to = start; to < len(s) && to <= start+length && (s[to] >= 'A' && s[to] <= 'Z' || s[to] >= '2' && s[to] <= '7'); to++ {
	}
	if to != start+length || to < len(s) && letterOrDigit(s[to]) {
		return 0, 0
	}
	return start, to
}

// hook finds the path of an address to which anyone who knows it may post.
func hook(s string, _, end int) (from, to int) {
	for to = end; to < len(s) && !ends(s[to]); to++ {
	}
	return end, to
}

type assignment struct {
	sep    byte // '=' or ':'; '%' for an encoded '='; 0 for none
	quoted bool // the name is quoted
	end    int  // start of the value
}

func separator(s string, i int) assignment {
	i, quote := skipQuote(s, i)
	i = skipSpaces(s, i)
	switch rest := s[i:]; {
	case strings.HasPrefix(rest, "="), strings.HasPrefix(rest, ":"):
		return assignment{sep: rest[0], quoted: quote != "", end: skipSpaces(s, i+1)}
	case hasPrefixFold(rest, "%3d"):
		return assignment{sep: '%', end: i + len("%3d")}
	case hasPrefixFold(rest, "%253d"):
		return assignment{sep: '%', end: i + len("%253d")}
	}
	return assignment{}
}

func content(s string, v assignment) (from, to int) {
	from, quote := skipQuote(s, v.end)
	if quote == "" && strings.HasPrefix(s[from:], "[") {
		from, quote = from+1, "]"
	}
	if quote != "" {
		if n := strings.Index(s[from:], quote); n >= 0 {
			return from, from + n
		}
		return from, len(s)
	}
	for to = from; to < len(s) && !ends(s[to]); to++ {
		if v.sep == '%' && s[to] == '%' && (hasPrefixFold(s[to:], "%26") || hasPrefixFold(s[to:], "%2526")) {
			break
		}
	}
	return from, to
}

func ends(b byte) bool {
	return b <= ' ' || strings.IndexByte("\"'`&,;]})<>|\\", b) >= 0
}

// schemes are the words before the secret of an Authorization header.
var schemes = map[string]bool{
	"acs": true, "acs3-hmac-sha256": true, "acs3-rsa-sha256": true, "basic": true, "bearer": true,
	"digest": true, "negotiate": true, "oss": true, "oss4-hmac-sha256": true, "token": true,
}

// authorization finds the secret of an Authorization header, after its scheme.
func authorization(s string, _, end int) (from, to int) {
	v := separator(s, end)
	if v.sep == 0 {
		return 0, 0
	}
	from, to = content(s, v)
	if from == to || from > v.end {
		return from, to
	}
	word := s[from:to]
	next := skipSpaces(s, to)
	if next == to || strings.ContainsFunc(word, func(r rune) bool { return !alnum(r) && r != '-' }) {
		return from, to
	}
	last := next // searched only if it is the end: text without a match is searched again for the next mark
	for last < len(s) && s[last] > ' ' && strings.IndexByte("\"']\\", s[last]) < 0 {
		last++
	}
	switch {
	case last == next:
		return from, to
	case schemes[strings.ToLower(word)]:
		return next, last
	}
	return from, last
}

// A token is recognised by how it begins and which bytes follow.
type token struct {
	mark   string // exactly; empty: in any letter case
	others string // its bytes beside letters and digits
	least  int    // its length behind the mark
	prose  int    // a shorter one without a digit is a word
	whole  bool   // the mark begins a word
	all    bool   // the mark is hidden too
}

func (k token) find(s string, start, end int) (from, to int) {
	if k.mark != "" && s[start:end] != k.mark || k.whole && inWord(s, start) {
		return 0, 0
	}
	to = run(s, end, k.others)
	if n := to - end; n < k.least || n < k.prose && !strings.ContainsAny(s[end:to], "0123456789") {
		return 0, 0
	}
	if k.all {
		return start, to
	}
	return end, to
}

// userinfo finds the name and password, or the token, before the host of a URL.
func userinfo(s string, _, end int) (from, to int) {
	for i := end; i < min(len(s), end+512); i++ {
		switch c := s[i]; {
		case c == '@':
			return end, i
		case c <= ' ', c == '/', c == '?', c == '#', c == '"':
			return 0, 0
		}
	}
	return 0, 0
}

func privateKey(s string, start, end int) (from, to int) {
	head := s[end:min(len(s), end+40)]
	if !strings.Contains(head, "PRIVATE KEY-----") {
		return 0, 0
	}
	const tail = "PRIVATE KEY-----"
	first := end + strings.Index(head, tail) + len(tail)
	if n := strings.Index(s[first:], tail); n >= 0 {
		return start, first + n + len(tail)
	}
	return start, len(s)
}

// run returns the end of the letters, digits and other bytes from s[i:] on.
func run(s string, i int, others string) int {
	for i < len(s) && (letterOrDigit(s[i]) || strings.IndexByte(others, s[i]) >= 0) {
		i++
	}
	return i
}

// skipQuote returns the index after a quote at s[i:] and that quote, possibly escaped; empty if none exists.
func skipQuote(s string, i int) (int, string) {
	for _, q := range [...]string{`\"`, `"`, `'`} {
		if strings.HasPrefix(s[i:], q) {
			return i + len(q), q
		}
	}
	return i, ""
}

func skipSpaces(s string, i int) int {
	for i < len(s) && s[i] == ' ' {
		i++
	}
	return i
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// inWord reports whether s[i:] begins inside a word. A percent-encoded byte before it does not belong to the word.
func inWord(s string, i int) bool {
	escaped := i >= 3 && s[i-3] == '%' || i >= 5 && s[i-5] == '%'
	return i > 0 && letterOrDigit(s[i-1]) && !escaped
}

func letter(b byte) bool { return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }

func alnum(r rune) bool { return r < utf8.RuneSelf && letterOrDigit(byte(r)) }

func letterOrDigit(b byte) bool { return letter(b) || b >= '0' && b <= '9' }
