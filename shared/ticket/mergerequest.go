package ticket

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/shared/chat"
	"github.com/lbremedy/lbremedy/shared/forge"
	"github.com/lbremedy/lbremedy/shared/manifest"
)

// mergeRequest keeps one merge request for the plan of a Service whose source a GitOps tool applies: its branch is named by the ticket and
// the plan's digest. The policy decides about repository, branch and files; of the Service only its name and the patch arrive there.
type mergeRequest struct {
	endpoint
	repository forge.Repository
}

// Send makes the request for the present plan and closes those for others, or all at the end. The ID is the request's number and branch.
func (m *mergeRequest) Send(ctx context.Context, t Ticket) (string, error) {
	prefix := "lbremedy-" + strings.TrimPrefix(t.Key, "lbr-") + "-"
	lead := t.Facts.Lead
	paths := m.sink.Paths(lead.Source)
	var change *forge.Change
	if t.Status == Open && len(paths) > 0 {
		branch := prefix + lead.Source.Digest
		if _, at, _ := strings.Cut(t.ID, " "); at == branch && !t.Reopened {
			return t.ID, nil // whatever a person has done with it
		}
		change = &forge.Change{Branch: branch, Title: fmt.Sprintf("%s: %s (%s)", lead.Service, t.Facts.Title, branch), Text: fenced(t.Text), Paths: paths}
		change.Edit = func(text []byte) ([]byte, error) {
			next, err := manifest.Patch(text, lead.Service.Namespace, lead.Service.Name, lead.Source.Patch)
			if errors.Is(err, manifest.ErrNotFound) {
				err = fmt.Errorf("%w: %w", forge.ErrElsewhere, err)
			}
			return next, err
		}
	} else if t.ID == "" && !t.Tried {
		return "", nil // it was over before
	}
	r := m.repository
	_, token, err := m.read()
	if err != nil {
		return "", err
	}
	r.Token = token
	number, err := r.Keep(ctx, prefix, change)
	if _, wire := errors.AsType[*chat.Error](err); err != nil && !wire {
		err = fmt.Errorf("%w: %w", ErrRefused, err) // about the file or an answer
	}
	if err != nil || change == nil {
		return "", posted(err)
	}
	return number + " " + change.Branch, nil
}

// fenced returns a text as a block of code: nothing that an Event or annotation says is a mention, a link or a command there.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + strings.TrimSpace(text) + "\n" + fence
}
