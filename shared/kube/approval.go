package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An Approval is a person's answer to one plan, as an object of the cluster. The admission policy of package approval ensures that it names its creator.
type Approval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ApprovalSpec `json:"spec"`
}

// An ApprovalSpec says who answers which plan, and how. It is immutable.
type ApprovalSpec struct {
	Cluster           string   `json:"cluster,omitempty"` // ID of the cluster; empty: the cluster of the object
	Service           string   `json:"service"`           // name of the Service, in the same namespace, that the person was shown
	Case              string   `json:"case"`              // ID of the case
	Plan              string   `json:"plan"`              // digest of its plan
	Attempt           int      `json:"attempt"`           // the number, from 1, of the attempt to write that it approves
	Verdict           Verdict  `json:"verdict"`
	User              string   `json:"user"`             // the answering user, as the API server knows them
	Groups            []string `json:"groups,omitempty"` // the user's groups, as far as the answer should count for them
	Comment           string   `json:"comment,omitempty"`
	ExpirationSeconds int64    `json:"expirationSeconds,omitempty"` // lifetime from its creation; default a day
	Chat              *Chat    `json:"chat,omitempty"`              // where the user answered, if the notifier answers for them
}

// A Chat is where the notifier got a person's answer.
type Chat struct {
	Sink  string `json:"sink"`  // name of the sink in the policy
	Kind  string `json:"kind"`  // of the sink, which names the platform
	User  string `json:"user"`  // the person who clicked, as the platform knows them
	Click string `json:"click"` // the platform's ID of the click
}

// String names the platform, its user, the sink and the click.
func (c Chat) String() string {
	return fmt.Sprintf("%s user %s, at the sink %s, by the click %s", c.Kind, c.User, c.Sink, c.Click)
}

// A Verdict is the answer to a plan.
type Verdict string

// The verdicts.
const (
	Approve Verdict = "Approve"
	Reject  Verdict = "Reject"
)

// ApprovalVersion is the version of the API in which Approvals are stored and served.
const ApprovalVersion = "v1beta1"

const approvalGroup = "/apis/lbremedy.io/" + ApprovalVersion

// Manifest returns an Approval with the kind that a manifest names.
func (a Approval) Manifest() Approval {
	a.APIVersion, a.Kind = "lbremedy.io/"+ApprovalVersion, "Approval"
	return a
}

// CreateApproval creates and returns an Approval. ErrNotFound: kind or namespace is missing; ErrDenied: not allowed; ErrConflict: the name exists.
func (c *Cluster) CreateApproval(ctx context.Context, a Approval) (*Approval, error) {
	if !ValidName(a.Namespace) {
		return nil, noName("create Approval", "namespace", a.Namespace)
	}
	doing := "create Approval in " + a.Namespace
	body, err := json.Marshal(a.Manifest())
	if err != nil {
		return nil, &Error{Doing: doing, Kind: ErrInvalid, Message: err.Error()}
	}
	made := new(Approval)
	path := approvalGroup + "/namespaces/" + a.Namespace + "/approvals"
	err = c.call(ctx, doing, request{verb: http.MethodPost, path: path, query: map[string]string{"fieldManager": Manager}, body: body}, made)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Approvals returns the Approvals of a namespace; empty: of all. It needs grant.ListApprovals.
func (c *Cluster) Approvals(ctx context.Context, namespace string) ([]Approval, error) {
	path, err := approvalsPath(namespace)
	if err != nil {
		return nil, err
	}
	return all[Approval](ctx, c, "list Approvals", path, nil)
}

// EachApproval calls see with each Approval of all namespaces, then with each created or changed, until ctx ends or the API server
// ends the watch, which returns nil. An error of see is returned as it is, after the existing ones are seen. It needs
// grant.ListApprovals and grant.WatchApprovals.
func (c *Cluster) EachApproval(ctx context.Context, see func(Approval) error) error {
	path, err := approvalsPath("")
	if err != nil {
		return err
	}
	var bad error
	version, err := list(ctx, c, "list Approvals", path, nil, func(a *Approval) error {
		bad = errors.Join(bad, see(*a))
		return nil
	})
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	err = watch(ctx, c, "watch Approvals", path, nil, version, spell, func(kind string, a *Approval) error {
		if kind == Added || kind == Modified {
			return see(*a)
		}
		return nil
	})
	if errors.Is(err, ErrGone) {
		return nil // the caller lists again
	}
	return err
}

func approvalsPath(namespace string) (string, error) {
	switch {
	case namespace == "":
		return approvalGroup + "/approvals", nil
	case !ValidName(namespace):
		return "", noName("list Approvals", "namespace", namespace)
	}
	return approvalGroup + "/namespaces/" + namespace + "/approvals", nil
}

// A User is a user as the API server knows them.
type User struct {
	Name   string
	Groups []string
}

// Me returns the calling user as the API server knows them. From Kubernetes 1.28 on, every known user may ask (role system:basic-user).
func (c *Cluster) Me(ctx context.Context) (User, error) {
	var answer struct {
		Status struct {
			UserInfo struct {
				Username string   `json:"username"`
				Groups   []string `json:"groups"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	err := c.call(ctx, "ask who we are", request{
		verb: http.MethodPost, path: "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		body: []byte(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`),
	}, &answer)
	return User{answer.Status.UserInfo.Username, answer.Status.UserInfo.Groups}, err
}
