package policy

import (
	"errors"
	"fmt"
	"io"
	"net/mail"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/near"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A Sink is one destination of notifications: an entry of the section tell. Package ticket notifies it. It contains no secret, only
// the place of the secret, and may be stored in a ConfigMap and in a repository.
type Sink struct {
	Name       string    `json:"name"`                // 1 to 32 lower-case letters, digits and inner hyphens; its memory depends on it
	Kind       string    `json:"kind"`                // alibaba, event, mail, webhook, alertmanager, pagerduty, a chat such as dingtalk, or a forge such as github
	URL        string    `json:"url,omitempty"`       // of a webhook, an Alertmanager or a mail server; of a platform or forge, if not the usual one
	URLFrom    Reference `json:"urlFrom,omitzero"`    // place of the address; those of DingTalk, WeCom and Slack are secrets
	SecretFrom Reference `json:"secretFrom,omitzero"` // place of the secret: a signing key, a token, or that of an app or of mail
	App        string    `json:"app,omitempty"`       // of an app: its client ID
	Chat       string    `json:"chat,omitempty"`      // of an app: ID of the group that gets its cards
	From       string    `json:"from,omitempty"`      // of mail: the sender's address
	To         []string  `json:"to,omitempty"`        // of mail: the recipients' addresses
	User       string    `json:"user,omitempty"`      // of mail: login name for the secret; default: from
	Card       string    `json:"card,omitempty"`      // of an app of DingTalk: ID of its cards' template
	Category   string    `json:"category,omitempty"`  // ID of the category of tickets of Alibaba Cloud's support
	Urgent     bool      `json:"urgent,omitempty"`    // tickets of Alibaba Cloud's support are urgent
	Template   string    `json:"template,omitempty"`  // file with texts that replace lbremedy's, in a directory of secrets
	Language   string    `json:"language,omitempty"`  // language of notifications: en (default) or zh

	// Of github, gitlab and codeup.
	Repository string   `json:"repository,omitempty"` // OWNER/NAME; at GitLab the path of the project; at Codeup ORGANIZATION/NUMBER
	Branch     string   `json:"branch,omitempty"`     // into which changes are to be merged
	Sources    []Source `json:"sources,omitempty"`    // files with the Services of applications

	// Filters; empty: the usual for the kind.
	Classes    []string `json:"classes,omitempty"`
	Risks      []string `json:"risks,omitempty"`      // of the plan: low, medium, high
	Namespaces []string `json:"namespaces,omitempty"` // names; * matches any text, ? any character
	Results    []string `json:"results,omitempty"`    // needs-approval, needs-action, failed, unsettled, fixed; for the kind event also planned
}

// A Source says in which files of a repository the Services of one application are. One of application and kustomization is set.
type Source struct {
	Application   string   `json:"application,omitempty"`   // of Argo CD
	Kustomization string   `json:"kustomization,omitempty"` // of Flux: NAMESPACE/NAME
	Paths         []string `json:"paths"`                   // YAML files
}

// A Reference says where a secret is. Exactly one of the two is set.
type Reference struct {
	Env  string `json:"env,omitempty"`  // an environment variable
	File string `json:"file,omitempty"` // a file; white space around the text is ignored
}

// String names the place, never the secret.
func (r Reference) String() string {
	if r.Env != "" {
		return "the variable " + r.Env
	}
	return "the file " + r.File
}

// Read returns the secret; an error if it is missing or unsuitable.
func (r Reference) Read() (string, error) {
	value := os.Getenv(r.Env)
	if r.File != "" {
		data, err := readFile(r.File, longestSecret)
		if err != nil {
			return "", fmt.Errorf("read a secret: %w", err)
		}
		value = string(data)
	}
	value = strings.TrimSpace(value)
	switch {
	case value == "":
		return "", fmt.Errorf("read a secret: %s is empty", r)
	case len(value) > longestSecret || strings.ContainsAny(value, "\r\n"):
		return "", fmt.Errorf("read a secret: %s holds more than a secret of one line", r)
	}
	return value, nil
}

const longestSecret = 4096

// longestTemplate is in bytes.
const longestTemplate = 64 << 10

// ReadTemplate returns the sink's file with texts, which must be below one of dirs.
func (s Sink) ReadTemplate(dirs []string) (string, error) {
	if err := (Reference{File: s.Template}).Readable(dirs); err != nil {
		return "", err
	}
	data, err := readFile(s.Template, longestTemplate)
	if err == nil && len(data) > longestTemplate {
		err = fmt.Errorf("it is larger than %d KiB", longestTemplate>>10)
	}
	return string(data), err
}

func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1))
}

// Readable returns why a process must not read the place for a sink, or nil. A writer of the policy could name the process's own
// credentials, and an address to send them to. Files must be below dirs, with which the process was started. Variables must not be the
// process's own; those that begin with LBREMEDY_TELL_ are for sinks.
func (r Reference) Readable(dirs []string) error {
	name := strings.ToUpper(r.Env)
	own := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	if !own("LBREMEDY_TELL_") && (slices.ContainsFunc([]string{"LBREMEDY_", "ALIBABA", "ALICLOUD_", "OTEL_", "KUBE"}, own) || strings.HasSuffix(name, "_PROXY")) {
		return fmt.Errorf("%s can't hold a secret of sinks: rename it, such as to LBREMEDY_TELL_SECRET", r)
	}
	below := func(dir string) bool {
		rel, err := filepath.Rel(dir, r.File)
		return err == nil && filepath.IsLocal(rel)
	}
	// Behind a link, ".." leads elsewhere.
	if r.File != "" && (r.File != filepath.Clean(r.File) || !slices.ContainsFunc(dirs, below)) {
		return fmt.Errorf("%s does not lie below %s: move it there, or name its directory with --secrets", r, strings.Join(dirs, " or "))
	}
	return nil
}

const (
	Alibaba  = "alibaba"  // tickets of Alibaba Cloud's support
	Event    = "event"    // Kubernetes Events on the Services
	DingTalk = "dingtalk" // messages of a DingTalk robot
	WeCom    = "wecom"    // messages of a robot of WeCom
	Slack    = "slack"    // messages of a Slack incoming webhook
	Mail     = "mail"     // mail over SMTP
	Webhook  = "webhook"  // signed CloudEvents

	Alertmanager = "alertmanager" // alerts by the API of Prometheus' Alertmanager, which ARMS also has
	PagerDuty    = "pagerduty"    // alerts by PagerDuty's Events API v2

	GitHub = "github" // merge requests for what GitOps tools own, at GitHub
	GitLab = "gitlab" // the same at GitLab
	Codeup = "codeup" // the same at Codeup

	DingTalkApp = "dingtalk-app" // cards with buttons of an app of DingTalk
	FeishuApp   = "feishu-app"   // the same for Feishu or Lark
)

var languages = []string{"en", "zh"}

var kinds = []string{Alibaba, Event, DingTalk, DingTalkApp, FeishuApp, WeCom, Slack, Mail, Webhook, Alertmanager, PagerDuty, GitHub, GitLab, Codeup}

// Answers reports whether people can answer at sinks of a kind.
func Answers(kind string) bool { return kind == DingTalkApp || kind == FeishuApp }

// Forge reports whether a kind of sinks makes merge requests.
func Forge(kind string) bool { return kind == GitHub || kind == GitLab || kind == Codeup }

// Paths returns the files of the sink's repository with the Services of a plan's source; none if the policy does not name it here.
func (s Sink) Paths(of *event.Source) []string {
	for _, one := range s.Sources {
		switch {
		case of == nil || of.Name == "":
		case of.Kind == "Application" && of.Name == one.Application, of.Kind == "Kustomization" && of.Name == one.Kustomization:
			return one.Paths
		}
	}
	return nil
}

var notifiable = []string{
	string(event.NeedsApproval), string(event.NeedsAction), string(event.Failed), string(event.Unsettled), string(event.Fixed), string(event.Synced),
	string(event.Planned),
}

// SinkWords returns the words that a sink's fields may hold; a final [] means each entry.
func SinkWords() map[string][]string {
	return map[string][]string{"kind": kinds, "language": languages, "risks[]": remedy.Low.Words(), "results[]": notifiable}
}

// Wants returns the results that the sink is notified of.
func (s Sink) Wants() []string {
	switch {
	case len(s.Results) > 0:
		return s.Results
	case s.Kind == Event:
		return notifiable
	case s.Kind == Alibaba, s.Kind == Alertmanager, s.Kind == PagerDuty, Forge(s.Kind):
		return notifiable[:4] // its readers want only what needs help
	}
	return notifiable[:6]
}

// Check reports the sink's mistakes to bad, each with its field.
func (s Sink) Check(classes []string, bad func(field, format string, args ...any)) {
	if !slices.Contains(kinds, s.Kind) {
		bad("kind", "there is no kind %q; there are %s", s.Kind, strings.Join(kinds, ", "))
		return
	}
	if s.Language != "" && !slices.Contains(languages, s.Language) {
		bad("language", "there is no language %q; there are %s", s.Language, strings.Join(languages, ", "))
	}
	none := Reference{}
	for _, r := range []struct {
		name string
		Reference
	}{{"urlFrom", s.URLFrom}, {"secretFrom", s.SecretFrom}} {
		if r.Env != "" && r.File != "" {
			bad(r.name, "it names a variable and a file; one of them holds the secret")
		}
	}
	chat := s.Kind == DingTalk || s.Kind == WeCom || s.Kind == Slack
	own := s.Kind == Webhook || s.Kind == Alertmanager // its address is the user's
	s.checkApp(bad)
	s.checkMail(bad)
	s.checkForge(bad)
	switch {
	case Answers(s.Kind), s.Kind == Mail, Forge(s.Kind):
	case s.Kind == PagerDuty && s.URLFrom != none:
		bad("urlFrom", "the addresses of PagerDuty are fixed: leave it out, or write url")
	case chat && s.URL != "":
		bad("url", "the address of a %s webhook is a secret; put it into a variable or a file and name that in urlFrom", s.Kind)
	case !own && s.Kind != PagerDuty && s.URL != "", !own && !chat && s.URLFrom != none:
		bad("url", "a sink of kind %s has no address", s.Kind)
	case chat && s.URLFrom == none:
		bad("urlFrom", "it names no place; name the variable (env) or the file with the address of the webhook")
	case own && (s.URL == "") == (s.URLFrom == none):
		bad("url", "give either url or urlFrom")
	case s.URL != "":
		if err := s.CheckURL(s.URL); err != nil {
			bad("url", "%v", err)
		}
	}
	switch {
	case s.Kind == Webhook && s.SecretFrom == none:
		bad("secretFrom", "it names no place; what goes to a webhook is signed, so name the variable (env) or the file with the key")
	case s.Kind == PagerDuty && s.SecretFrom == none:
		bad("secretFrom", "it names no place; name the variable (env) or the file with the routing key of the integration")
	case !own && s.Kind != DingTalk && !Answers(s.Kind) && s.Kind != Mail && s.Kind != PagerDuty && !Forge(s.Kind) && s.SecretFrom != none:
		bad("secretFrom", "a sink of kind %s signs nothing", s.Kind)
	}
	switch {
	case s.Kind == Alibaba && strings.Trim(s.Category, "0123456789") != "", s.Kind == Alibaba && s.Category == "":
		bad("category", "%q is not a number; ListCategories of the ticket API lists them", s.Category)
	case s.Kind != Alibaba && (s.Category != "" || s.Urgent):
		bad("category", "only tickets of kind alibaba have a category or are urgent")
	}
	for _, id := range s.Classes {
		if !slices.Contains(classes, id) {
			bad("classes", "unknown class %q: the nearest are %s", id, strings.Join(near.Three(id, classes), ", "))
		}
	}
	for _, text := range s.Risks {
		if err := new(remedy.Risk).UnmarshalText([]byte(text)); err != nil {
			bad("risks", "%v", err)
		}
	}
	for _, p := range s.Namespaces {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			bad("namespaces", "%q is not a pattern", p)
		}
	}
	may := notifiable
	if s.Kind != Event {
		may = notifiable[:6]
	}
	for _, r := range s.Results {
		if !slices.Contains(may, r) {
			bad("results", "%q is none that a sink of kind %s is notified of; those are %s", r, s.Kind, strings.Join(may, ", "))
		}
	}
}

func (s Sink) checkApp(bad func(field, format string, args ...any)) {
	if !Answers(s.Kind) {
		if s.App != "" || s.Chat != "" || s.Card != "" {
			bad("app", "only a sink that is an app has app, chat or card")
		}
		return
	}
	switch none := (Reference{}); {
	case s.App == "":
		bad("app", "it is empty; name the client ID of the app")
	case s.Chat == "":
		bad("chat", "it is empty; name the ID of the group that the cards go to")
	case s.SecretFrom == none:
		bad("secretFrom", "it names no place; name the variable (env) or the file with the secret of the app")
	case s.Kind == DingTalkApp && s.Card == "":
		bad("card", "it is empty; name the ID of the template of the cards")
	case s.Kind != DingTalkApp && s.Card != "":
		bad("card", "only cards of DingTalk have a template")
	case s.URLFrom != none:
		bad("urlFrom", "the address of an app's platform is fixed: leave it out")
	case s.URL != "":
		if err := s.CheckURL(s.URL); err != nil {
			bad("url", "%v", err)
		}
	}
}

var (
	repository = map[string]func() *regexp.Regexp{
		GitHub: regex.New(`^[A-Za-z0-9-]+/[A-Za-z0-9._-]+$`),
		GitLab: regex.New(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$`),
		Codeup: regex.New(`^[0-9a-f-]+/[0-9]+$`),
	}
	// Neither has a part that begins with a dot.
	branch = regex.New(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$`)
	files  = regex.New(`^[A-Za-z0-9_@][A-Za-z0-9._@ -]*(/[A-Za-z0-9_@][A-Za-z0-9._@ -]*)*[.]ya?ml$`)
)

func (s Sink) checkForge(bad func(field, format string, args ...any)) {
	if !Forge(s.Kind) {
		if s.Repository != "" || s.Branch != "" || len(s.Sources) > 0 {
			bad("repository", "only a sink of kind github, gitlab or codeup has repository, branch or sources")
		}
		return
	}
	if !repository[s.Kind]().MatchString(s.Repository) {
		bad("repository", "%q is not a repository of kind %s, such as %s", s.Repository, s.Kind,
			map[string]string{GitHub: "acme/deploy", GitLab: "acme/shop/deploy", Codeup: "60d54f3daccf2bbd6659f3ad/2813489"}[s.Kind])
	}
	if !branch().MatchString(s.Branch) {
		bad("branch", "%q is not a branch, such as main", s.Branch)
	}
	if s.SecretFrom == (Reference{}) {
		bad("secretFrom", "it names no place; name the variable (env) or the file with the token")
	}
	if s.URLFrom != (Reference{}) {
		bad("urlFrom", "the address of a forge is not secret: write url")
	} else if s.URL != "" {
		if err := s.CheckURL(s.URL); err != nil {
			bad("url", "%v", err)
		}
	}
	if len(s.Sources) == 0 {
		bad("sources", "it is empty; name the applications, and the files with their Services")
	}
	seen := map[string]bool{}
	for i, one := range s.Sources {
		at, name := fmt.Sprintf("sources[%d]", i), one.Application+" "+one.Kustomization
		switch {
		case (one.Application == "") == (one.Kustomization == ""):
			bad(at, "give either application or kustomization")
		case one.Kustomization != "" && strings.Count(one.Kustomization, "/") != 1:
			bad(at+".kustomization", "%q is not NAMESPACE/NAME", one.Kustomization)
		case seen[name]:
			bad(at, "another one has the same name; name all paths in one")
		case len(one.Paths) == 0 || len(one.Paths) > mostPaths:
			bad(at+".paths", "name 1 to %d files", mostPaths)
		}
		seen[name] = true
		for _, p := range one.Paths {
			if !files().MatchString(p) {
				bad(at+".paths", "%q is not the path of a YAML file in the repository, such as apps/web.yaml", p)
			}
		}
	}
}

// mostPaths limits the calls for one request.
const mostPaths = 10

func (s Sink) checkMail(bad func(field, format string, args ...any)) {
	if s.Kind != Mail {
		if s.From != "" || len(s.To) > 0 || s.User != "" {
			bad("from", "only a sink of kind mail has from, to or user")
		}
		return
	}
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "smtps" && u.Scheme != "smtp" || u.Hostname() == "" || u.Port() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" {
		bad("url", "it is not an address such as smtps://smtp.example.com:465, or smtp://smtp.example.com:587 for STARTTLS")
	}
	if s.URLFrom != (Reference{}) {
		bad("urlFrom", "the address of a server of mail is not secret: write url")
	}
	if len(s.To) == 0 {
		bad("to", "it is empty; name the addresses that mail goes to")
	}
	for field, list := range map[string][]string{"from": {s.From}, "to": s.To} {
		for _, address := range list {
			if _, err := mail.ParseAddress(address); err != nil || strings.ContainsAny(address, "\r\n") {
				bad(field, "%q is not an email address", address)
			}
		}
	}
}

// platforms are the fixed addresses of chats, by kind of sink: a policy that could name others could send secrets or messages there.
var platforms = map[string][]string{
	DingTalk:    {"https://oapi.dingtalk.com"},
	DingTalkApp: {"https://api.dingtalk.com"},
	FeishuApp:   {"https://open.feishu.cn", "https://open.larksuite.com"},
	WeCom:       {"https://qyapi.weixin.qq.com"},
	Slack:       {"https://hooks.slack.com"},
	PagerDuty:   {"https://events.pagerduty.com", "https://events.eu.pagerduty.com"},
	Codeup:      {"https://openapi-rdc.aliyuncs.com"},
}

// CheckURL returns why the sink must not send to an address. A chat must have its platform's; any other must be https, or http on
// loopback. An Alertmanager in the cluster, which usually has no certificate, may be http without a token. The error doesn't repeat
// the address, which may contain a secret.
func (s Sink) CheckURL(text string) error {
	u, err := url.Parse(text)
	if s.Kind == Alertmanager && err == nil && u.Scheme == "http" && u.User == nil && inCluster(u.Hostname()) {
		if s.SecretFrom != (Reference{}) {
			return errors.New("the token is sent to https:// alone: leave out secretFrom, or write https://")
		}
		return nil
	}
	if err := checkURL(u, err); err != nil {
		return err
	}
	if fixed := platforms[s.Kind]; fixed != nil && !slices.Contains(fixed, u.Scheme+"://"+u.Host) {
		return fmt.Errorf("the address of a sink of kind %s begins with %s", s.Kind, strings.Join(fixed, " or "))
	}
	return nil
}

func inCluster(host string) bool {
	return strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".svc.cluster.local")
}

func checkURL(u *url.URL, err error) error {
	switch {
	case err != nil || u.Host == "":
		return errors.New("the address is not a URL such as https://example.com/hook")
	case u.User != nil:
		return errors.New("the address holds a user or password, which would be sent along and logged on the way")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return errors.New("the address must begin with https://; http is for loopback only")
}

func loopback(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.") && strings.Trim(host, "0123456789.") == ""
}
