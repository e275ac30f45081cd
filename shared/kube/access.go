package kube

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A Review asks whether a user may do something. The fields are those of a SubjectAccessReview.
type Review struct {
	User        string   `json:"-"`
	Groups      []string `json:"-"`
	Namespace   string   `json:"namespace,omitempty"`
	Group       string   `json:"group"` // API group of the resource
	Resource    string   `json:"resource"`
	Subresource string   `json:"subresource,omitempty"`
	Verb        string   `json:"verb"`
	Name        string   `json:"name,omitempty"` // of one object; empty: of all
}

// Allowed asks the API server whether the user may do it, which stores nothing. It needs grant.ReviewAccess.
func (c *Cluster) Allowed(ctx context.Context, r Review) (bool, error) {
	return c.review(ctx, fmt.Sprintf("ask whether %.100q may %s %s", r.User, r.Verb, r.Resource), "SubjectAccessReview", r)
}

// MayI asks the API server whether the caller may do it, as every user may; User and Groups are ignored. Nothing is stored.
func (c *Cluster) MayI(ctx context.Context, r Review) (bool, error) {
	r.User, r.Groups = "", nil
	return c.review(ctx, fmt.Sprintf("ask whether we may %s %s", r.Verb, r.Resource), "SelfSubjectAccessReview", r)
}

func (c *Cluster) review(ctx context.Context, doing, kind string, r Review) (bool, error) {
	spec := map[string]any{"resourceAttributes": r}
	if r.User != "" {
		spec["user"], spec["groups"] = r.User, r.Groups
	}
	body := map[string]any{"kind": kind, "apiVersion": "authorization.k8s.io/v1", "spec": spec}
	var answer struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	path := "/apis/authorization.k8s.io/v1/" + strings.ToLower(kind) + "s"
	err := c.call(ctx, doing, request{verb: "POST", path: path, body: body}, &answer)
	return answer.Status.Allowed && err == nil, err
}

// Clock returns the time of the API server, in seconds.
func (c *Cluster) Clock(ctx context.Context) (time.Time, error) {
	const doing = "read the clock of the API server"
	inner, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	own, err := c.client(inner, nil)
	if err != nil {
		return time.Time{}, explain(ctx, doing, err)
	}
	r, err := http.NewRequestWithContext(inner, http.MethodGet, own.Get().AbsPath("/version").URL().String(), nil)
	if err != nil {
		return time.Time{}, &Error{Doing: doing, Kind: ErrInvalid, Message: hide(err).Error()}
	}
	client := cmp.Or(own.Client, http.DefaultClient)
	answer, err := client.Do(r)
	if err != nil {
		return time.Time{}, explain(ctx, doing, err)
	}
	defer answer.Body.Close()
	at, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return time.Time{}, &Error{Doing: doing, Kind: ErrUnavailable, Status: answer.StatusCode, Message: "its answer has no date"}
	}
	return at, nil
}

// Version returns the version of the API server, such as v1.36.1. Every known user may read it.
func (c *Cluster) Version(ctx context.Context) (string, error) {
	var answer struct {
		GitVersion string `json:"gitVersion"`
	}
	err := c.call(ctx, "read the version of the API server", request{verb: "GET", path: "/version"}, &answer)
	return answer.GitVersion, err
}
