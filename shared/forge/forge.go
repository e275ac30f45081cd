// Package forge keeps one merge request for a change in a repository, by the HTTP APIs of GitHub, GitLab and Codeup. Begin with
// [Repository.Keep].
//
// The forge itself is the memory. All branches of a subject have a common prefix, and each change a branch of its own, so a process that
// was killed after any call is continued by the next one: it finds the branch, the commit or the request, and makes what is missing.
//
// A request that a person has closed or merged stays so as long as its branch is there, which is deleted at the end.
//
// A token goes to the address that the policy names and nowhere else: redirects are not followed.
package forge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/chat"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// A Repository is where a change goes.
type Repository struct {
	API
	Name   string // as the API names it
	Target string // branch that requests are to be merged into
	Token  string
	Now    func() time.Time
	Wire   http.RoundTripper // nil: the network
}

// A Change is what a merge request proposes.
type Change struct {
	Branch, Title, Text string   // the title contains the branch's name, by which Codeup finds the request
	Paths               []string // of files, one of which is changed
	Edit                func(text []byte) ([]byte, error)
}

// Errors.
var (
	ErrElsewhere = errors.New("the change is about another file") // of Edit
	ErrDone      = errors.New("the target branch has the change already")
	errAnswer    = errors.New("the answer is not what the API documents, or longer than 256 KiB")
)

// Keep leaves the request for the change as the only open one of its subject, whose branches begin with prefix. It closes the others, and all of
// them for a nil Change. It returns the number of the change's request, open or as a person left it.
func (r Repository) Keep(ctx context.Context, prefix string, c *Change) (number string, err error) {
	var branches []answer
	if err := r.do(ctx, r.branches, values{"prefix": prefix}, &branches); err != nil {
		return "", err
	}
	exists := false
	for _, a := range branches {
		switch branch := cmp.Or(a.Name, strings.TrimPrefix(a.Ref, "refs/heads/")); {
		case !strings.HasPrefix(branch, prefix): // not lbremedy's
		case c != nil && branch == c.Branch:
			exists = true
		default:
			if err := r.end(ctx, branch); err != nil {
				return "", err
			}
		}
	}
	if c == nil {
		return "", nil
	}
	if exists {
		all, err := r.requestsOf(ctx, c.Branch)
		if err != nil || len(all) > 0 {
			return last(all), err
		}
	}
	return r.propose(ctx, *c, exists)
}

// end closes the open requests of a branch, and then deletes it: without it they would not be found.
func (r Repository) end(ctx context.Context, branch string) error {
	all, err := r.requestsOf(ctx, branch)
	if err != nil {
		return err
	}
	for _, one := range all {
		if !one.open() {
			continue
		}
		var done answer
		if err := r.do(ctx, r.close, values{"number": one.number()}, &done); err != nil {
			return err
		}
		if done.Result != nil && !*done.Result {
			return fmt.Errorf("close request %s: the forge has not done it", one.number())
		}
	}
	err = r.do(ctx, r.remove, values{"branch": branch}, nil)
	if fail, ok := errors.AsType[*chat.Error](err); ok && (fail.Status == http.StatusNotFound || fail.Status == http.StatusUnprocessableEntity) {
		return nil // it is gone
	}
	return err
}

// propose makes the branch, the commit and the request, as far as they are missing.
func (r Repository) propose(ctx context.Context, c Change, exists bool) (string, error) {
	v := values{"branch": c.Branch, "title": c.Title, "text": c.Text, "ref": r.Target}
	if exists {
		v["ref"] = c.Branch
	}
	changed, err := r.edit(ctx, c, v)
	switch {
	case err != nil:
		return "", err
	case !changed && !exists:
		return "", fmt.Errorf("%s: %w", v["path"], ErrDone)
	}
	if !exists {
		var base answer
		if r.base.path != "" {
			err = r.do(ctx, r.base, v, &base)
		}
		v["commit"] = base.Object.SHA
		if err == nil {
			err = r.do(ctx, r.create, v, nil)
		}
	}
	if err == nil && changed {
		err = r.do(ctx, r.write, v, nil)
	}
	if err != nil {
		return "", err
	}
	var made answer
	err = r.do(ctx, r.open, v, &made)
	if fail, ok := errors.AsType[*chat.Error](err); ok && fail.Refused { // an earlier call may have got through
		if all, again := r.requestsOf(ctx, c.Branch); again == nil && len(all) > 0 {
			return last(all), nil
		}
	}
	if err == nil && made.number() == "" {
		err = errAnswer
	}
	return made.number(), err
}

// edit puts path, version and new content of the file that changes into the values, and reports whether it differs.
func (r Repository) edit(ctx context.Context, c Change, v values) (changed bool, err error) {
	for _, path := range c.Paths {
		var f answer
		if err := r.do(ctx, r.read, values{"path": path, "ref": v["ref"]}, &f); err != nil {
			return false, err
		}
		text := []byte(f.Content)
		if f.Encoding != "text" {
			if text, err = base64.StdEncoding.DecodeString(f.Content); err != nil || f.Encoding != "base64" { // line ends in it are ignored
				return false, fmt.Errorf("%s: %w", path, errAnswer)
			}
		}
		next, err := c.Edit(text)
		switch {
		case errors.Is(err, ErrElsewhere):
			continue
		case err != nil:
			return false, fmt.Errorf("%s: %w", path, err)
		case v["path"] != "":
			return false, fmt.Errorf("both %s and %s have it", v["path"], path)
		}
		v["path"], v["version"], v["content"] = path, cmp.Or(f.SHA, f.LastCommit), base64.StdEncoding.EncodeToString(next)
		changed = !bytes.Equal(next, text)
	}
	if v["path"] == "" {
		return false, fmt.Errorf("%s: %w", strings.Join(c.Paths, ", "), ErrElsewhere)
	}
	return changed, nil
}

// requestsOf returns the requests of a branch of the repository itself; anybody may name a branch of a fork.
func (r Repository) requestsOf(ctx context.Context, branch string) ([]answer, error) {
	var all []answer
	err := r.do(ctx, r.requests, values{"branch": branch}, &all)
	return slices.DeleteFunc(all, func(a answer) bool {
		return cmp.Or(a.Head.Ref, a.SourceBranch, a.Source) != branch || a.From != a.To || a.FromID != a.ToID || a.number() == ""
	}), err
}

// last returns the number of the open request, or of the newest one, which is the first.
func last(all []answer) string {
	if i := slices.IndexFunc(all, answer.open); i >= 0 {
		return all[i].number()
	}
	if len(all) == 0 {
		return ""
	}
	return all[0].number()
}

// An answer has the fields of all answers that are read, each under the names that the APIs give it.
type answer struct {
	Name, Ref string // of a branch

	Number, IID, LocalID json.Number // of a request
	State                string
	Head                 struct{ Ref string }
	SourceBranch         string
	Source               string      `json:"source_branch"`
	From                 json.Number `json:"source_project_id"`
	To                   json.Number `json:"target_project_id"`
	FromID               json.Number `json:"sourceProjectId"`
	ToID                 json.Number `json:"targetProjectId"`
	Result               *bool

	Encoding, Content, SHA string // of a file
	LastCommit             string `json:"last_commit_id"`
	Object                 struct{ SHA string }
}

var digits = regex.New(`^[0-9]{1,12}$`)

// number returns the number of a request; "" if it is not one.
func (a answer) number() string {
	return digits().FindString(cmp.Or(a.Number, a.IID, a.LocalID).String())
}

// open reports whether a request is open. Those of Codeup have three such states.
func (a answer) open() bool {
	return slices.Contains([]string{"open", "opened", "UNDER_DEV", "UNDER_REVIEW", "TO_BE_MERGED"}, a.State)
}

type values map[string]string

// integer is a value that is sent as a JSON number.
type integer string

// do makes a call and decodes the answer. Its errors do not contain the token.
func (r Repository) do(ctx context.Context, c call, v values, into any) error {
	v = maps.Clone(v)
	v["owner"], v["name"], _ = strings.Cut(r.Name, "/")
	v["project"], v["target"], v["token"] = r.Name, r.Target, r.Token
	fill := func(text string, escape func(string) string) string {
		var pairs []string
		for key, value := range v {
			pairs = append(pairs, "{"+key+"}", escape(value))
		}
		return strings.NewReplacer(pairs...).Replace(text)
	}
	same := func(text string) string { return text }
	header, data := http.Header{}, []byte(nil)
	for key, list := range r.header {
		header.Set(key, fill(list[0], same))
	}
	if c.body != nil {
		header.Set("Content-Type", "application/json")
		body := map[string]any{}
		for key, value := range c.body {
			switch value := value.(type) {
			case string:
				body[key] = fill(value, same)
			case integer:
				body[key] = json.Number(fill(string(value), same))
			default:
				body[key] = value
			}
		}
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	path := fill(c.path, url.PathEscape)
	address := strings.TrimSuffix(r.URL, "/") + path
	if c.query != "" {
		address += "?" + fill(c.query, url.QueryEscape)
	}
	said, err := chat.Post(ctx, r.Wire, r.Now(), c.method+" "+path, c.method, address, header, data)
	if fail, ok := errors.AsType[*chat.Error](err); ok {
		fail.Said = bytes.ReplaceAll(fail.Said, []byte(r.Token), []byte("***"))
		// A rate is limited by 403 or 429, with a delay (GitHub, "Rate limits for the REST API").
		fail.Refused = fail.Refused && fail.After == 0
	}
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(said, into); err != nil {
		return fmt.Errorf("%s %s: %w", c.method, path, errAnswer)
	}
	return nil
}
