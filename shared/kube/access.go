package kube

import (
	"context"
	"encoding/json"
	"fmt"
)

// A Review asks whether somebody may do something. The fields are those of a
// SubjectAccessReview.
type Review struct {
	User        string
	Groups      []string
	Namespace   string
	Group       string // API group of the resource
	Resource    string
	Subresource string
	Verb        string
}

// Allowed asks the API server whether the user may do it: its own authorizers decide, and
// it keeps nothing of the question. It needs grant.ReviewAccess.
func (c *Cluster) Allowed(ctx context.Context, r Review) (bool, error) {
	doing := fmt.Sprintf("ask whether %.100q may %s %s", r.User, r.Verb, r.Resource)
	type attributes struct {
		Namespace   string `json:"namespace,omitempty"`
		Verb        string `json:"verb"`
		Group       string `json:"group"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource,omitempty"`
	}
	type spec struct {
		User       string     `json:"user"`
		Groups     []string   `json:"groups,omitempty"`
		Attributes attributes `json:"resourceAttributes"`
	}
	body, err := json.Marshal(struct {
		Kind    string `json:"kind"`
		Version string `json:"apiVersion"`
		Spec    spec   `json:"spec"`
	}{"SubjectAccessReview", "authorization.k8s.io/v1", spec{r.User, r.Groups, attributes{r.Namespace, r.Verb, r.Group, r.Resource, r.Subresource}}})
	if err != nil {
		return false, &Error{Doing: doing, Kind: ErrInvalid, Message: err.Error()}
	}
	var answer struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	err = c.call(ctx, doing, request{verb: "POST", path: "/apis/authorization.k8s.io/v1/subjectaccessreviews", body: body}, &answer)
	return answer.Status.Allowed && err == nil, err
}

// Self returns the user name by which the API server knows whoever asks. Every user that it
// knows may ask (the role system:basic-user), from Kubernetes 1.28 on, so that it needs no
// grant.
func (c *Cluster) Self(ctx context.Context) (string, error) {
	var answer struct {
		Status struct {
			UserInfo struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	err := c.call(ctx, "ask who we are", request{
		verb: "POST", path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", body: []byte(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`),
	}, &answer)
	return answer.Status.UserInfo.Username, err
}
