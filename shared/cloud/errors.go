package cloud

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// The kinds of errors, for errors.Is. An error has at most one kind.
var (
	// ErrNotFound: the object does not exist. An empty list, an unknown access key or region do not return it.
	ErrNotFound = errors.New("not found")
	// ErrDenied: RAM, or the check of the key and the signature, refused the call. An expired key or a wrong clock is ErrUnavailable.
	ErrDenied = errors.New("denied")
	// ErrThrottled: too many calls, by the cloud's count or by Config.Rate.
	ErrThrottled = errors.New("throttled")
	// ErrConflict: the present state forbids this write; read and plan again.
	ErrConflict = errors.New("conflict")
	// ErrUnavailable: no answer, a failure of the server, or an unusable answer. It is unknown whether a write was made.
	ErrUnavailable = errors.New("unavailable")
)

// Codes of errors without an answer of the cloud.
const (
	codeNoAnswer  = "NoAnswer"      // nothing came back
	codeBadAnswer = "BadAnswer"     // the answer cannot be used
	codeNoKey     = "NoCredentials" // no key to sign with
	codeNotSent   = "NotSent"       // the request was not made
)

// An Error is a call that failed. Its text is safe for logs, events and tickets.
type Error struct {
	Product   string // such as "slb"
	Action    string // such as "DescribeLoadBalancers"
	Code      string // the API's error code, or NoAnswer, BadAnswer, NoCredentials, NotSent
	Message   string // the API's message, without addresses and secrets
	RequestID string // empty if none exists
	Refused   string // the refused RAM action, such as "slb:TagResources", if the answer names it
	Status    int    // of HTTP; 0 without an answer

	kind  error // one of the Err values, or nil
	cause error // of the context, if it ended the call
}

// Error says which call failed and why, in one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s", e.Product, e.Action, e.Code)
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	if e.Refused != "" && !strings.Contains(e.Message, e.Refused) {
		fmt.Fprintf(&b, " (%s)", e.Refused)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " [request %s]", e.RequestID)
	}
	return b.String()
}

// Is reports whether the error has that kind.
func (e *Error) Is(kind error) bool { return e.kind != nil && e.kind == kind }

// Unwrap returns the error of the caller's context if it ended the call or left no time for it, and nil otherwise.
func (e *Error) Unwrap() error { return e.cause }

func (e *Error) passing() bool {
	switch {
	case e.cause != nil || e.Code == codeBadAnswer || e.Code == codeNoKey || e.Code == codeNotSent:
		return false
	case e.Code == codeNoAnswer:
		return e.Message != tooLate // a call that took this long will again
	}
	return e.kind == ErrThrottled || e.kind == ErrUnavailable
}

// refused reports whether the cloud, and not our own limit, refused the call because of too many.
func (e *Error) refused() bool { return e.kind == ErrThrottled && e.Code != codeNotSent }

// wireError is the error in an answer. The container service does not capitalize its names; the decoder accepts both.
type wireError struct {
	Code               text
	Message            text
	RequestID          text `json:"RequestId"`
	RequestIDSnake     text `json:"request_id"`
	AccessDeniedDetail json.RawMessage
}

func (w wireError) refused() string {
	var detail struct{ AuthAction text }
	if json.Unmarshal(w.AccessDeniedDetail, &detail) != nil {
		return ""
	}
	return string(detail.AuthAction)
}

// denials are refusals by RAM or the check of the signature. Codes such as Forbidden.LcuToSpec mean something else. Forbbiden is the API's spelling.
var denials = []string{
	"Forbidden", "Forbidden.RAM", "Forbidden.NoPermission", "Forbidden.AccessKeyDisabled", "Forbbiden.SubUser", "Forbidden.SubUser",
	"NoPermission", "NotAuthorized", "Unauthorized", "StatusForbidden", "ForbiddenQueryClusterNamespace", "illegal.auth", "AccessDenied",
	"InvalidAccessKeyId", "InvalidAccessKeyId.NotFound", "InvalidAccessKeyId.Inactive", "InvalidAccessKeySecret",
	"SignatureDoesNotMatch", "IncompleteSignature", "MissingSecurityToken",
	"InvalidSecurityToken", "InvalidSecurityToken.Malformed", "InvalidSecurityToken.MismatchWithAccessKey",
}

// conflicts are the codes of writes that the present state forbids.
var conflicts = []string{
	"EntityAlreadyExists.Policy.Version", "LimitExceeded.Policy.Version", "DeleteConflict.Policy.Version", "DeleteConflict.Version.Default",
	"OperationConflict", "TokenProcessing",
}

// faults are the codes of server failures, which come with any status, and of a time, key or nonce that the next try replaces. After
// SignatureNonceUsed the server may have accepted a copy of the request.
var faults = []string{
	"ServiceUnavailable", "InternalError", "SystemBusy", "LocationServiceTimeout", "OperationBusy",
	"InvalidTimeStamp.Expired", "InvalidSecurityToken.Expired", "SecurityTokenExpired", "SignatureNonceUsed",
}

// kindOf returns the kind of an error answer, or nil. gone are the codes for a missing object.
func kindOf(code string, status int, gone []string) error {
	in := func(list []string) bool { return slices.Contains(list, code) }
	switch {
	case in(gone):
		return ErrNotFound
	case in(denials) || status == http.StatusUnauthorized || code == "" && status == http.StatusForbidden:
		return ErrDenied
	case code == "Throttling" || strings.HasPrefix(code, "Throttling.") || strings.HasSuffix(code, ".Throttling") || status == http.StatusTooManyRequests:
		return ErrThrottled
	case in(conflicts) || status == http.StatusConflict:
		return ErrConflict
	case in(faults) || status >= http.StatusInternalServerError:
		return ErrUnavailable
	}
	return nil
}

// A redactor removes the key and the signature of a call, and everything that looks like them.
type redactor struct{ secrets []string }

func redactorOf(k Key, signature string) redactor {
	var r redactor
	for _, s := range []string{k.ID, k.Secret, k.Token, signature} {
		if len(s) < 4 { // shorter values are not secrets, and would break up words
			continue
		}
		once := url.QueryEscape(s)
		r.secrets = append(r.secrets, url.QueryEscape(once), once, s)
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return r
}

var (
	// signed matches the whole request, with key and token, which the answer to a wrong signature quotes.
	signed    = regex.New(`(?i)\bserver string to sign is\b.*`)
	addresses = regex.New(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>]+`)
)

const longest = 2000

func (r redactor) clean(s string) string {
	s = signed().ReplaceAllString(strings.Join(strings.Fields(s), " "), "(the signed request is left out)")
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, "***")
	}
	s = addresses().ReplaceAllString(s, "(address)")
	return event.Clip(event.Redact(s), longest)
}
