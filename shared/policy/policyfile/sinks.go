package policyfile

import (
	"fmt"
	"net/mail"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// SinkName is the form of a sink's name.
const SinkName = `^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`

var sinkName = regex.New(SinkName)

var (
	languages = []string{"en", "zh"}
	kinds     = []string{policy.Alibaba, policy.Event, policy.DingTalk, policy.DingTalkApp, policy.FeishuApp, policy.WeCom, policy.Slack, policy.Mail,
		policy.Webhook, policy.Alertmanager, policy.PagerDuty, policy.GitHub, policy.GitLab, policy.Codeup}
)

const (
	noPlace   = "it names no place; name the variable (env) or the file with the "
	ofApps    = "the address of an app's platform is fixed: leave it out"
	ofForges  = "the address of a forge is not secret: write url"
	mostPaths = 10 // of a source: each path costs one call per request
)

// known says, by kind, why a sink takes no urlFrom.
var known = map[string]string{
	policy.DingTalkApp: ofApps, policy.FeishuApp: ofApps, policy.GitHub: ofForges, policy.GitLab: ofForges, policy.Codeup: ofForges,
	policy.Mail:      "the address of a server of mail is not secret: write url",
	policy.PagerDuty: "the addresses of PagerDuty are fixed: leave it out, or write url",
}

// unsigned says what is wrong with a sink without secretFrom, by its kind.
var unsigned = map[string]string{
	policy.DingTalkApp: noPlace + "secret of the app", policy.FeishuApp: noPlace + "secret of the app",
	policy.GitHub: noPlace + "token", policy.GitLab: noPlace + "token", policy.Codeup: noPlace + "token",
	policy.PagerDuty: noPlace + "routing key of the integration",
	policy.Webhook:   "it names no place; what goes to a webhook is signed, so name the variable (env) or the file with the key",
}

// maySign are the kinds of sinks that also work without secretFrom.
var maySign = []string{policy.DingTalk, policy.Mail, policy.Alertmanager}

// SinkWords returns the words that a sink's fields may hold; a final [] means each entry.
func SinkWords() map[string][]string {
	return map[string][]string{"kind": kinds, "language": languages, "risks[]": remedy.Low.Words(), "results[]": policy.Notifiable("")}
}

func (r reader) sinks(list []policy.Sink) {
	seen := map[string]bool{}
	for i, s := range list {
		at := fmt.Sprintf("tell[%d]", i)
		switch {
		case s.Name == "":
			r.Fail(at, "it has no name; give it one that stays, since its tickets are known by it")
		case !sinkName().MatchString(s.Name):
			r.Fail(at+".name", "%q is not 1 to 32 lower-case letters, digits and inner hyphens", s.Name)
		case seen[s.Name]:
			r.Fail(at+".name", "another sink is called %s, too", s.Name)
		}
		seen[s.Name] = true
		r.sink(at+".", s)
	}
}

func (r reader) sink(at string, s policy.Sink) {
	if !slices.Contains(kinds, s.Kind) {
		r.Fail(at+"kind", "the kind %q is unknown; the kinds are %s", s.Kind, strings.Join(kinds, ", "))
		return
	}
	if s.Language != "" && !slices.Contains(languages, s.Language) {
		r.Fail(at+"language", "the language %q is unknown; the languages are %s", s.Language, strings.Join(languages, ", "))
	}
	for name, ref := range map[string]policy.Reference{"urlFrom": s.URLFrom, "secretFrom": s.SecretFrom} {
		if ref.Env != "" && ref.File != "" {
			r.Fail(at+name, "it names a variable and a file; one of them holds the secret")
		}
	}
	for _, of := range []struct {
		may, has   bool
		field, why string
	}{
		{policy.Answers(s.Kind), s.App != "" || s.Chat != "" || s.Card != "", "app", "only a sink that is an app has app, chat or card"},
		{s.Kind == policy.Mail, s.From != "" || len(s.To) > 0 || s.User != "", "from", "only a sink of kind mail has from, to or user"},
		{policy.Forge(s.Kind), s.Repository != "" || s.Branch != "" || len(s.Sources) > 0, "repository",
			"only a sink of kind github, gitlab or codeup has repository, branch or sources"},
		{s.Kind == policy.Alibaba, s.Category != "" || s.Urgent, "category", "only tickets of kind alibaba have a category or are urgent"},
	} {
		if of.has && !of.may {
			r.Fail(at+of.field, "%s", of.why)
		}
	}
	r.address(at, s)
	switch none := s.SecretFrom == (policy.Reference{}); {
	case none && unsigned[s.Kind] != "":
		r.Fail(at+"secretFrom", "%s", unsigned[s.Kind])
	case !none && unsigned[s.Kind] == "" && !slices.Contains(maySign, s.Kind):
		r.Fail(at+"secretFrom", "a sink of kind %s signs nothing", s.Kind)
	}
	switch {
	case policy.Answers(s.Kind):
		r.app(at, s)
	case policy.Forge(s.Kind):
		r.forge(at, s)
	case s.Kind == policy.Mail:
		r.mail(at, s)
	case s.Kind == policy.Alibaba && (s.Category == "" || strings.Trim(s.Category, "0123456789") != ""):
		r.Fail(at+"category", "%q is not a number; ListCategories of the ticket API lists them", s.Category)
	}
	for _, id := range s.Classes {
		r.class(at+"classes", id)
	}
	for _, text := range s.Risks {
		if err := new(remedy.Risk).UnmarshalText([]byte(text)); err != nil {
			r.Fail(at+"risks", "%v", err)
		}
	}
	r.patterns(at+"namespaces", s.Namespaces)
	may := policy.Notifiable(s.Kind)
	for _, result := range s.Results {
		if !slices.Contains(may, result) {
			r.Fail(at+"results", "%q is not a result that sinks of kind %s are notified of; those are %s", result, s.Kind, strings.Join(may, ", "))
		}
	}
}

// patterns notes what is not a pattern of names.
func (r reader) patterns(at string, list []string) {
	for _, p := range list {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			r.Fail(at, "%q is not a pattern", p)
		}
	}
}

func (r reader) address(at string, s policy.Sink) {
	none := s.URLFrom == (policy.Reference{})
	chat := s.Kind == policy.DingTalk || s.Kind == policy.WeCom || s.Kind == policy.Slack
	own := s.Kind == policy.Webhook || s.Kind == policy.Alertmanager // its address is the user's
	switch {
	case known[s.Kind] != "" && !none:
		r.Fail(at+"urlFrom", "%s", known[s.Kind])
	case chat && s.URL != "":
		r.Fail(at+"url", "the address of a %s webhook is a secret; put it into a variable or a file and name that in urlFrom", s.Kind)
	case chat && none:
		r.Fail(at+"urlFrom", noPlace+"address of the webhook")
	case own && (s.URL == "") == none:
		r.Fail(at+"url", "give either url or urlFrom")
	case !own && !chat && known[s.Kind] == "" && (s.URL != "" || !none):
		r.Fail(at+"url", "a sink of kind %s has no address", s.Kind)
	case s.URL != "" && s.Kind != policy.Mail:
		if err := s.CheckURL(s.URL); err != nil {
			r.Fail(at+"url", "%v", err)
		}
	}
}

func (r reader) app(at string, s policy.Sink) {
	switch {
	case s.App == "":
		r.Fail(at+"app", "it is empty; name the client ID of the app")
	case s.Chat == "":
		r.Fail(at+"chat", "it is empty; name the ID of the group that the cards go to")
	case s.Kind == policy.DingTalkApp && s.Card == "":
		r.Fail(at+"card", "it is empty; name the ID of the template of the cards")
	case s.Kind != policy.DingTalkApp && s.Card != "":
		r.Fail(at+"card", "only cards of DingTalk have a template")
	}
}

func (r reader) mail(at string, s policy.Sink) {
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "smtps" && u.Scheme != "smtp" || u.Hostname() == "" || u.Port() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" {
		r.Fail(at+"url", "it is not an address such as smtps://smtp.example.com:465, or smtp://smtp.example.com:587 for STARTTLS")
	}
	if len(s.To) == 0 {
		r.Fail(at+"to", "it is empty; name the addresses that mail goes to")
	}
	for field, list := range map[string][]string{"from": {s.From}, "to": s.To} {
		for _, address := range list {
			if _, err := mail.ParseAddress(address); err != nil || strings.ContainsAny(address, "\r\n") {
				r.Fail(at+field, "%q is not an email address", address)
			}
		}
	}
}

var (
	repository = map[string]func() *regexp.Regexp{
		policy.GitHub: regex.New(`^[A-Za-z0-9-]+/[A-Za-z0-9._-]+$`),
		policy.GitLab: regex.New(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$`),
		policy.Codeup: regex.New(`^[0-9a-f-]+/[0-9]+$`),
	}
	// Neither has a part that begins with a dot.
	branch = regex.New(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$`)
	files  = regex.New(`^[A-Za-z0-9_@][A-Za-z0-9._@ -]*(/[A-Za-z0-9_@][A-Za-z0-9._@ -]*)*[.]ya?ml$`)
)

func (r reader) forge(at string, s policy.Sink) {
	if !repository[s.Kind]().MatchString(s.Repository) {
		r.Fail(at+"repository", "%q is not a repository of kind %s, such as %s", s.Repository, s.Kind,
			map[string]string{policy.GitHub: "acme/deploy", policy.GitLab: "acme/shop/deploy", policy.Codeup: "60d54f3daccf2bbd6659f3ad/2813489"}[s.Kind])
	}
	if !branch().MatchString(s.Branch) {
		r.Fail(at+"branch", "%q is not a branch, such as main", s.Branch)
	}
	if len(s.Sources) == 0 {
		r.Fail(at+"sources", "it is empty; name the applications, and the files with their Services")
	}
	seen := map[string]bool{}
	for i, one := range s.Sources {
		at, name := fmt.Sprintf("%ssources[%d]", at, i), one.Application+" "+one.Kustomization
		switch {
		case (one.Application == "") == (one.Kustomization == ""):
			r.Fail(at, "give either application or kustomization")
		case one.Kustomization != "" && strings.Count(one.Kustomization, "/") != 1:
			r.Fail(at+".kustomization", "%q is not NAMESPACE/NAME", one.Kustomization)
		case seen[name]:
			r.Fail(at, "another one has the same name; name all paths in one")
		case len(one.Paths) == 0 || len(one.Paths) > mostPaths:
			r.Fail(at+".paths", "name 1 to %d files", mostPaths)
		}
		seen[name] = true
		for _, p := range one.Paths {
			if !files().MatchString(p) {
				r.Fail(at+".paths", "%q is not the path of a YAML file in the repository, such as apps/web.yaml", p)
			}
		}
	}
}

// ours matches lbremedy's own users, who don't answer.
var ours = regex.New(`^system:serviceaccount:[^:]+:lbremedy-`)

func (r reader) people(list []policy.Person) {
	for i, p := range list {
		at := fmt.Sprintf("people[%d].", i)
		switch {
		case p.User == "":
			r.Fail(at+"user", "it is empty; name the user as whom this person answers in Kubernetes")
		case ours().MatchString(p.User):
			r.Fail(at+"user", "lbremedy does not answer its own questions")
		}
		if p.DingTalk == "" && p.Feishu == "" {
			r.Fail(at+"dingtalk", "neither dingtalk nor feishu says who clicks")
		}
		if slices.Contains(p.Groups, "") {
			r.Fail(at+"groups", "one of them is empty")
		}
		for _, o := range list[:i] {
			if p.DingTalk != "" && o.DingTalk == p.DingTalk {
				r.Fail(at+"dingtalk", "%q is another person's, too", p.DingTalk)
			}
			if p.Feishu != "" && o.Feishu == p.Feishu {
				r.Fail(at+"feishu", "%q is another person's, too", p.Feishu)
			}
		}
	}
}
