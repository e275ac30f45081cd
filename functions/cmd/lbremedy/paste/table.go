package paste

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

type columns struct {
	kind  Kind
	names []string // as fields; none if their cells are not below them
	at    []int    // offsets in bytes of the header
}

var (
	gap     = regex.New(`\s{2,}|\t`)
	cell    = regex.New(`\S+(?: \S+)*`)
	capital = regex.New(`^[A-Z][A-Z .:]*$`)
	// cutHeader matches the header in kubectl describe with the last column's name cut.
	cutHeader = regex.New(`^\s*Type\s+Reason\s+Age\s+From\s+(M\w*)$`)
	dashes    = regex.New(`^\s*-{2,}(?:\s+-{2,})+\s*$`)
)

func (r *Reader) header(line string) bool {
	trimmed := strings.TrimSpace(line)
	if r.table != nil && (dashes().MatchString(line) || r.cut != "" && (trimmed == r.cut || strings.Trim(trimmed, "-") == "")) {
		return true
	}
	if m := cutHeader().FindStringSubmatch(line); m != nil && strings.HasPrefix("Message", m[1]) { // broken by a terminal
		r.cut = strings.TrimPrefix("Message", m[1])
		line += r.cut
		trimmed = strings.TrimSpace(line)
	}
	c := &columns{kind: Table}
	if !capital().MatchString(strings.ReplaceAll(trimmed, "\t", " ")) {
		if c.kind = Describe; !strings.Contains(line, "Reason") || !strings.HasSuffix(trimmed, "Message") || !strings.Contains(line, "From") {
			return false
		}
	}
	if names := strings.Fields(trimmed); len(names) < 2 || !slices.ContainsFunc(names, func(s string) bool { return columnName(s) == "message" }) {
		return false
	}
	if gap().MatchString(trimmed) {
		for _, at := range cell().FindAllStringIndex(line, -1) {
			c.names, c.at = append(c.names, columnName(line[at[0]:at[1]])), append(c.at, at[0])
		}
	}
	r.table = c
	return true
}

// columnName returns the field in a column with this head.
func columnName(head string) string {
	switch name := strings.ToLower(head); name {
	case "msg", "note":
		return "message"
	case "from", "source":
		return "component"
	case "ns":
		return "namespace"
	default:
		return name
	}
}

// cells returns nil if the row doesn't match the columns.
func (c *columns) cells(row string) fields {
	if c == nil || len(c.names) == 0 || strings.Contains(row, "\t") {
		return nil
	}
	all := fields{}
	for i, from := range c.at {
		to := len(row)
		if i+1 < len(c.at) {
			to = min(to, c.at[i+1])
		}
		if from >= len(row) {
			break
		}
		if i > 0 && row[from-1] != ' ' || !utf8.RuneStart(row[from]) {
			return nil
		}
		all[c.names[i]] = cmp.Or(all[c.names[i]], strings.TrimSpace(row[from:to]))
	}
	return all
}

var (
	rowLine   = regex.New(`(?s)^\s*((?:[\w.<>/()-]+\s+)*?)(Normal|Warning)\s+([A-Z][A-Za-z0-9]+)\s+(.+)$`)
	rowAge    = regex.New(`(?s)^(?:<unknown>|<invalid>|\d+[smhdy]\w*)(?:\s+\(x\d+ over [^)]*\))?(?:\s+(.*))?$`)
	rowObject = regex.New(`(?s)^([A-Za-z][\w.]*)/(\S+)\s+(.*)$`)
	rowSource = regex.New(`(?s)^([a-z][a-z0-9]*(?:-[a-z0-9]+)+|kubelet,?|terwayd)\s+(.*)$`)
	rowKind   = regex.New(`\s([A-Z][A-Za-z]+)\s`)
)

// narrowest is the shortest line that a terminal or mail program breaks: the columns before the message alone are longer.
const narrowest = 60

var begins = regex.New(`^\s*(?:$|[{\[<>#$%]|[IWEF]\d{4} |-{2,}|apiVersion: |---)|^[\w@.~:/-]+[$#>%] |` +
	`^[A-Z][\w ()-]*:(?:\s|$)|Error (?:syncing|deleting) load balancer`)

// breaks returns a function that reports which lines continue a row about a failure; nil for other lines.
func breaks(line string) func(string) (more, last bool) {
	m := rowLine().FindStringSubmatch(line)
	wide := utf8.RuneCountInString(line)
	if m == nil || m[2] != "Warning" || wide < narrowest {
		return nil
	}
	before := wide
	return func(line string) (bool, bool) {
		n := utf8.RuneCountInString(line)
		more := before >= narrowest*2/3 && n <= wide+narrowest/2 && !begins().MatchString(line) && !rowLine().MatchString(line)
		if _, ok := logLine(line); ok {
			more = false
		}
		before = n
		return more, false
	}
}

func (r *Reader) broken(text string) error {
	lines := strings.Split(text, "\n")
	within, joined := r.row(strings.Join(lines, ""))
	for i := range lines[1:] {
		lines[i+1] = strings.TrimSpace(lines[i+1])
	}
	t, ok := r.row(strings.Join(lines, " "))
	if len(lines) == 1 || !joined || !ok {
		return r.plain(text)
	}
	t.Or = within.Input.Message
	return r.found(t)
}

// levels reads an Event as kube-eventer sends it to chats (sinks/dingtalk and sinks/wechat of v1.2.7).
func (r *Reader) levels(text string) error {
	f := listed(text)
	f["type"], f["name"] = f["level"], objectOf(f["name"])
	return r.found(f.text(Fields))
}

func (r *Reader) row(line string) (Text, bool) {
	for _, s := range []string{line, r.raw} { // a column can hold the time
		if cells := r.table.cells(s); cells != nil && strings.HasSuffix(s, line) {
			if t, ok := r.inColumns(cells); ok {
				return t, true
			}
		}
	}
	m := rowLine().FindStringSubmatch(line)
	if m == nil {
		if r.table != nil && len(line) > 0 && line[0] != ' ' && r.table.kind == Describe {
			r.table = nil
		}
		return Text{}, false
	}
	before, rest := m[1], m[4]
	t := Text{Kind: Table, Input: event.Input{Type: m[2], Reason: m[3]}}
	kind := ""
	if of := rowObject().FindStringSubmatch(rest); of != nil {
		kind, t.Service, rest = of[1], of[2], of[3]
	} else if age := rowAge().FindStringSubmatch(rest); age != nil {
		t.Kind, t.Service, rest = Describe, r.service, age[1]
	} else if of := rowKind().FindStringSubmatch(" " + before + " "); of != nil {
		kind = of[1]
	}
	if source := rowSource().FindStringSubmatch(rest); source != nil {
		t.Input.Component, rest = strings.TrimSuffix(source[1], ","), source[2]
	}
	if r.table != nil {
		t.Kind = r.table.kind
	}
	t.Input.Message = strings.TrimSpace(rest)
	return about(t, kind), true
}

func (r *Reader) inColumns(cells fields) (Text, bool) {
	cells["component"], _, _ = strings.Cut(cells["component"], ",")
	if kind := cells["type"]; kind != "" && kind != "Normal" && kind != "Warning" || strings.Contains(cells["reason"]+cells["component"], " ") {
		return Text{}, false // shifted out of its columns
	}
	if slices.Contains(r.table.names, "reason") && cells["reason"] == "" {
		return Text{}, false
	}
	if kind, object, named := strings.Cut(cells["object"], "/"); named {
		cells["kind"], cells["name"] = kind, object
	}
	t := cells.text(r.table.kind)
	if t.Kind == Describe {
		t.Service = r.service
	}
	return t, true
}

func (r *Reader) described(text string) error {
	f := listed(text)
	if f["kind"] == "Event" || f["involvedObject/kind"] != "" {
		return r.found(f.text(Describe))
	}
	r.service = name(f["namespace"], f["name"])
	if end := text[strings.LastIndex(text, "\n")+1:]; !eventsLine().MatchString(end) || strings.Contains(end, "<none>") {
		return r.found(Text{Kind: Describe, Service: r.service, Why: "It shows no Events."})
	}
	r.table = &columns{kind: Describe}
	return nil
}

// listed reads lines such as "Reason: X", under the names of the API: "Involved Object" is involvedObject.
func listed(text string) fields {
	f, part := fields{}, ""
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if !ok {
			continue
		}
		within := strings.HasPrefix(key, " ")
		if key = strings.ReplaceAll(key, " ", ""); key != "" {
			key = strings.ToLower(key[:1]) + key[1:]
		}
		if within {
			key = part + "/" + key
		} else {
			part = key
		}
		f[key] = cmp.Or(f[key], strings.TrimSpace(value))
	}
	return f
}
