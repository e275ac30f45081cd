package forge

import "net/http"

// An API is how a kind of forges is called. In paths, queries and bodies, {words} are replaced by values, each escaped as its place needs it.
// Type answer has the fields of the answers.
type API struct {
	URL    string      // of the forge for everybody
	header http.Header // with the token

	branches, requests, read, base, create, write, open, close, remove call // base answers the commit that create needs; empty if none
}

type call struct {
	method, path, query string
	body                map[string]any
}

// APIs by the kind of sink.
var APIs = map[string]API{
	// The REST API of GitHub, version 2022-11-28, on its own address or at https://HOST/api/v3 of an Enterprise Server: "Git references",
	// "Repository contents" and "Pull requests". A repository is OWNER/NAME.
	"github": {
		URL: "https://api.github.com",
		header: http.Header{
			"Authorization": {"Bearer {token}"}, "Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {"2022-11-28"},
		},
		branches: call{"GET", "/repos/{owner}/{name}/git/matching-refs/heads/{prefix}", "", nil},
		requests: call{"GET", "/repos/{owner}/{name}/pulls", "head={owner}:{branch}&state=all&per_page=100", nil},
		read:     call{"GET", "/repos/{owner}/{name}/contents/{path}", "ref={ref}", nil},
		base:     call{"GET", "/repos/{owner}/{name}/git/ref/heads/{target}", "", nil},
		create:   call{"POST", "/repos/{owner}/{name}/git/refs", "", map[string]any{"ref": "refs/heads/{branch}", "sha": "{commit}"}},
		write: call{"PUT", "/repos/{owner}/{name}/contents/{path}", "", map[string]any{
			"message": "{title}", "content": "{content}", "sha": "{version}", "branch": "{branch}"}},
		open: call{"POST", "/repos/{owner}/{name}/pulls", "", map[string]any{
			"title": "{title}", "body": "{text}", "head": "{branch}", "base": "{target}"}},
		close:  call{"PATCH", "/repos/{owner}/{name}/pulls/{number}", "", map[string]any{"state": "closed"}},
		remove: call{"DELETE", "/repos/{owner}/{name}/git/refs/heads/{branch}", "", nil},
	},
	// The REST API v4 of GitLab: "Branches API", "Repository files API" and "Merge requests API". A repository is the path of a project.
	"gitlab": {
		URL:      "https://gitlab.com",
		header:   http.Header{"Private-Token": {"{token}"}},
		branches: call{"GET", "/api/v4/projects/{project}/repository/branches", "search=%5E{prefix}&per_page=100", nil},
		requests: call{"GET", "/api/v4/projects/{project}/merge_requests", "source_branch={branch}&state=all&per_page=100", nil},
		read:     call{"GET", "/api/v4/projects/{project}/repository/files/{path}", "ref={ref}", nil},
		create:   call{"POST", "/api/v4/projects/{project}/repository/branches", "branch={branch}&ref={target}", nil},
		write: call{"PUT", "/api/v4/projects/{project}/repository/files/{path}", "", map[string]any{
			"branch": "{branch}", "commit_message": "{title}", "content": "{content}", "encoding": "base64", "last_commit_id": "{version}"}},
		open: call{"POST", "/api/v4/projects/{project}/merge_requests", "", map[string]any{
			"title": "{title}", "description": "{text}", "source_branch": "{branch}", "target_branch": "{target}", "remove_source_branch": true}},
		close:  call{"PUT", "/api/v4/projects/{project}/merge_requests/{number}", "", map[string]any{"state_event": "close"}},
		remove: call{"DELETE", "/api/v4/projects/{project}/repository/branches/{branch}", "", nil},
	},
	// The API of Alibaba Cloud DevOps (Yunxiao), central edition: ListBranches, ListChangeRequests, which searches titles but not branches,
	// GetFileBlobs, UpdateFile and others (help.aliyun.com/zh/yunxiao/developer-reference). A repository is ORGANIZATION/NUMBER.
	"codeup": {
		URL:      "https://openapi-rdc.aliyuncs.com",
		header:   http.Header{"X-Yunxiao-Token": {"{token}"}},
		branches: call{"GET", "/oapi/v1/codeup/organizations/{owner}/repositories/{name}/branches", "search={prefix}&perPage=100", nil},
		requests: call{"GET", "/oapi/v1/codeup/organizations/{owner}/changeRequests", "projectIds={name}&search={branch}&perPage=100", nil},
		read:     call{"GET", "/oapi/v1/codeup/organizations/{owner}/repositories/{name}/files/{path}", "ref={ref}", nil},
		create:   call{"POST", "/oapi/v1/codeup/organizations/{owner}/repositories/{name}/branches", "branch={branch}&ref={target}", nil},
		write: call{"PUT", "/oapi/v1/codeup/organizations/{owner}/repositories/{name}/files/{path}", "", map[string]any{
			"branch": "{branch}", "commitMessage": "{title}", "content": "{content}", "encoding": "base64"}},
		open: call{"POST", "/oapi/v1/codeup/organizations/{owner}/repositories/{name}/changeRequests", "", map[string]any{
			"title": "{title}", "description": "{text}", "sourceBranch": "{branch}", "targetBranch": "{target}",
			"sourceProjectId": integer("{name}"), "targetProjectId": integer("{name}")}},
		close:  call{"POST", "/oapi/v1/codeup/organizations/{owner}/repositories/{name}/changeRequests/{number}/close", "", nil},
		remove: call{"DELETE", "/oapi/v1/codeup/organizations/{owner}/repositories/{name}/branches/{branch}", "", nil},
	},
}
