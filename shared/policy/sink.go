package policy

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
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
		data, err := ReadFile(r.File, longestSecret)
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
	data, err := ReadFile(s.Template, longestTemplate)
	if err == nil && len(data) > longestTemplate {
		err = fmt.Errorf("it is larger than %d KiB", longestTemplate>>10)
	}
	return string(data), err
}

// ReadFile returns a file's content, of a longer one the first most + 1 bytes.
func ReadFile(name string, most int64) ([]byte, error) {
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

// Notifiable returns the results that sinks of a kind can be notified of; an empty kind means all kinds.
func Notifiable(kind string) []string {
	if kind == Event || kind == "" {
		return notifiable
	}
	return notifiable[:6]
}

// Wants returns the results that the sink is notified of.
func (s Sink) Wants() []string {
	switch {
	case len(s.Results) > 0:
		return s.Results
	case s.Kind == Alibaba, s.Kind == Alertmanager, s.Kind == PagerDuty, Forge(s.Kind):
		return notifiable[:4] // its readers want only what needs help
	}
	return Notifiable(s.Kind)
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
