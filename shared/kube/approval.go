package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An Approval is a person's answer to one plan, as an object of the cluster. The admission policy of package approval ensures that it names its creator.
type Approval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ApprovalSpec   `json:"spec"`
	Status            ApprovalStatus `json:"status,omitzero"`
}

// An ApprovalStatus tells people what became of an Approval. No decision reads it.
type ApprovalStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
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

const (
	everyApproval = "/apis/lbremedy.io/" + ApprovalVersion + "/approvals"
	approvalsPath = "/apis/lbremedy.io/" + ApprovalVersion + "/namespaces/*/approvals"
)

// Manifest returns an Approval with the kind that a manifest names.
func (a Approval) Manifest() Approval {
	a.APIVersion, a.Kind = "lbremedy.io/"+ApprovalVersion, "Approval"
	return a
}

// CreateApproval creates and returns an Approval. ErrNotFound: kind or namespace is missing; ErrDenied: not allowed; ErrConflict: the name exists.
func (c *Cluster) CreateApproval(ctx context.Context, a Approval) (*Approval, error) {
	path, err := place("create Approval", approvalsPath, a.Namespace)
	if err != nil {
		return nil, err
	}
	made := new(Approval)
	post := request{verb: http.MethodPost, path: path, query: map[string]string{"fieldManager": Manager}, body: a.Manifest()}
	if err := c.call(ctx, "create Approval in "+a.Namespace, post, made); err != nil {
		return nil, err
	}
	return made, nil
}

// PatchApprovalStatus replaces the conditions of an Approval that has not changed since it was read. It returns ErrConflict if it has, and
// needs grant.PatchApprovalsStatus.
func (c *Cluster) PatchApprovalStatus(ctx context.Context, a Approval, conditions []metav1.Condition) error {
	path, err := place("patch Approval", approvalsPath+"/*/status", a.Namespace, a.Name)
	if err != nil {
		return err
	}
	patch := request{verb: http.MethodPatch, path: path, query: map[string]string{"fieldManager": Manager}, body: map[string]any{
		"metadata": map[string]any{"resourceVersion": a.ResourceVersion}, "status": ApprovalStatus{conditions},
	}}
	return c.call(ctx, "patch the status of the Approval "+a.Namespace+"/"+a.Name, patch, new(Approval))
}

// Approvals returns the Approvals of a namespace; empty: of all. It needs grant.ListApprovals.
func (c *Cluster) Approvals(ctx context.Context, namespace string) ([]Approval, error) {
	path := everyApproval
	if namespace != "" {
		var err error
		if path, err = place("list Approvals", approvalsPath, namespace); err != nil {
			return nil, err
		}
	}
	return all[Approval](ctx, c, "list Approvals", path, nil)
}

// EachApproval calls see with each Approval of all namespaces, then with each created or changed, until ctx ends or the API server
// ends the watch, which returns nil. The time of see counts against the limits of the list. It needs grant.ListApprovals and
// grant.WatchApprovals.
func (c *Cluster) EachApproval(ctx context.Context, see func(Approval)) error {
	version, err := list(ctx, c, "list Approvals", everyApproval, nil, func(a *Approval) error {
		see(*a)
		return nil
	})
	if err != nil {
		return err
	}
	err = watch(ctx, c, "watch Approvals", everyApproval, nil, version, spell, func(kind string, a *Approval) error {
		if kind == Added || kind == Modified {
			see(*a)
		}
		return nil
	})
	if errors.Is(err, ErrGone) {
		return nil // the caller lists again
	}
	return err
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
		body: map[string]any{"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"},
	}, &answer)
	return User{answer.Status.UserInfo.Username, answer.Status.UserInfo.Groups}, err
}
