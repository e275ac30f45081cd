package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/lbremedy/lbremedy/shared/say"
)

// An Approval is a person's answer to one plan, as an object of the cluster. The admission
// policy of package approval holds what it says of the person to the one who created it.
type Approval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ApprovalSpec   `json:"spec"`
	Status            ApprovalStatus `json:"status,omitzero"`
}

// An ApprovalSpec says who answers which plan, and how. It can't be changed.
type ApprovalSpec struct {
	Cluster           string   `json:"cluster,omitempty"` // ID of the cluster; empty: the one that the object is in
	Case              string   `json:"case"`              // ID of the case
	Plan              string   `json:"plan"`              // digest of its plan
	Attempt           int      `json:"attempt"`           // the number of the attempt to write that it is for, from 1
	Verdict           Verdict  `json:"verdict"`
	User              string   `json:"user"`             // who answers, as the API server knows them
	Groups            []string `json:"groups,omitempty"` // theirs, as far as the answer is to count for them
	Comment           string   `json:"comment,omitempty"`
	ExpirationSeconds int64    `json:"expirationSeconds,omitempty"` // how long it lasts from its creation; default a day
	Chat              *Chat    `json:"chat,omitempty"`              // where the user said so, if the notifier answers in their name
}

// A Chat is from where the notifier has a person's answer.
type Chat struct {
	Sink  string `json:"sink"`  // name of the sink in the policy
	Kind  string `json:"kind"`  // of the sink, which names the platform
	User  string `json:"user"`  // who clicked, as the platform knows them
	Click string `json:"click"` // the platform's ID of the click
}

// String names the platform, the person there, the sink and the click.
func (c Chat) String() string {
	return fmt.Sprintf("%s user %s, at the sink %s, by the click %s", c.Kind, c.User, c.Sink, c.Click)
}

// Lasts returns for how long the answer counts from its creation.
func (s ApprovalSpec) Lasts() time.Duration { return time.Duration(s.ExpirationSeconds) * time.Second }

// A Verdict is the answer to a plan.
type Verdict string

// The verdicts.
const (
	Approve Verdict = "Approve"
	Reject  Verdict = "Reject"
)

// An ApprovalStatus says what became of the answer. It is for people: nothing is decided by it.
type ApprovalStatus struct {
	State   ApprovalState `json:"state,omitempty"` // empty: it was not looked at yet
	Message string        `json:"message,omitempty"`
	Said    say.Text      `json:"said,omitempty"` // Message for readers of other languages
	Time    metav1.Time   `json:"time,omitzero"`
}

// Text returns the message; what somebody else has written beside it does not count.
func (s ApprovalStatus) Text() say.Text {
	if s.Said.String() == s.Message {
		return s.Said
	}
	return say.Literal(s.Message)
}

// An ApprovalState says what became of an answer, in a word.
type ApprovalState string

// The states.
const (
	Recorded ApprovalState = "Recorded" // it counts
	Refused  ApprovalState = "Refused"  // it does not count; the message says why
)

const (
	approvalGroup   = "/apis/lbremedy.io/v1"
	approvalVersion = "lbremedy.io/v1"
)

// Manifest returns an Approval with the kind that a manifest names.
func (a Approval) Manifest() Approval {
	a.APIVersion, a.Kind = approvalVersion, "Approval"
	return a
}

// CreateApproval creates an Approval in its namespace and returns it as the API server keeps
// it. It returns ErrNotFound where the cluster has no such kind or no such namespace, ErrDenied
// where the caller may not, and ErrConflict if there is one of that name.
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

// Approval returns an Approval as it is now. It needs grant.GetApprovals.
func (c *Cluster) Approval(ctx context.Context, namespace, name string) (*Approval, error) {
	return get[Approval](ctx, c, "Approval", approvalGroup, "approvals", namespace, name, nil)
}

// Approvals returns the Approvals of a namespace; of all with an empty one. It needs
// grant.ListApprovals.
func (c *Cluster) Approvals(ctx context.Context, namespace string) ([]Approval, error) {
	path, err := approvalsPath(namespace)
	if err != nil {
		return nil, err
	}
	return all[Approval](ctx, c, "list Approvals", path, nil)
}

// EachApproval calls see with each Approval of all namespaces, and then with each that is
// created or changed, until ctx ends or the API server ends the watch, which is no error. An
// error of see is returned as it is once those that were there are seen. It needs
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

// SetApprovalStatus says of an Approval what became of it. It returns ErrConflict if the
// Approval has changed since it was read. It needs grant.PatchApprovalsStatus.
func (w *Writer) SetApprovalStatus(ctx context.Context, a Approval, s ApprovalStatus) error {
	doing := "patch the status of Approval " + a.Namespace + "/" + a.Name
	if !ValidName(a.Namespace) || !ValidName(a.Name) {
		return noName("patch Approval", "name", a.Namespace+"/"+a.Name)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": a.ResourceVersion, "uid": a.UID}, "status": s})
	if err != nil {
		return &Error{Doing: doing, Kind: ErrInvalid, Message: err.Error()}
	}
	path := approvalGroup + "/namespaces/" + a.Namespace + "/approvals/" + a.Name + "/status"
	return w.cluster.call(ctx, doing, request{verb: http.MethodPatch, path: path, query: w.query(), body: body}, new(Approval))
}

// DeleteApproval deletes an Approval. It returns ErrConflict if it has changed since it was read,
// or another one has its name. It needs grant.DeleteApprovals.
func (w *Writer) DeleteApproval(ctx context.Context, a Approval) error {
	if !ValidName(a.Namespace) || !ValidName(a.Name) {
		return noName("delete Approval", "name", a.Namespace+"/"+a.Name)
	}
	doing := "delete Approval " + a.Namespace + "/" + a.Name
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &a.UID, ResourceVersion: &a.ResourceVersion},
	})
	if err != nil {
		return &Error{Doing: doing, Kind: ErrInvalid, Message: err.Error()}
	}
	path := approvalGroup + "/namespaces/" + a.Namespace + "/approvals/" + a.Name
	return w.cluster.call(ctx, doing, request{verb: http.MethodDelete, path: path, body: body}, new(metav1.Status))
}

// A User is somebody as the API server knows them.
type User struct {
	Name   string
	Groups []string
}

// Me returns whoever asks, as the API server knows them. Every user that it knows may ask
// (the role system:basic-user), from Kubernetes 1.28 on, so that it needs no grant.
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

// AwaitApproval returns an Approval once it says what became of it, or as it is when ctx ends.
// It needs grant.GetApprovals and grant.WatchApprovals.
func (c *Cluster) AwaitApproval(ctx context.Context, a Approval) (*Approval, error) {
	path, err := approvalsPath(a.Namespace)
	if err != nil {
		return nil, err
	}
	query := map[string]string{"fieldSelector": fields.OneTermEqualSelector("metadata.name", a.Name).String()}
	last := &a
	for ctx.Err() == nil && last.Status.State == "" {
		err := watch(ctx, c, "watch Approval "+a.Namespace+"/"+a.Name, path, query, last.ResourceVersion, spell, func(kind string, now *Approval) error {
			if kind == Deleted {
				return &Error{Doing: "watch Approval " + a.Namespace + "/" + a.Name, Kind: ErrNotFound, Message: "it was deleted"}
			}
			if kind == Added || kind == Modified {
				last = now
			}
			if last.Status.State != "" {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) && ctx.Err() == nil {
			return last, err
		}
	}
	return last, nil
}
