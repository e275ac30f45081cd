package core

import (
	_ "embed"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Documented returns an error that the API reference names, with its text.
func Documented(code string) *Failure {
	f, ok := usualErrors[code]
	if !ok {
		panic("sim: no text for " + code)
	}
	return &f
}

// Usual returns an error that any action may answer with; nothing if code is none.
func Usual(code string) (Failure, bool) {
	f, ok := usualErrors[code]
	return f, ok
}

// UsualCodes returns the codes of the errors that any action may answer with, sorted.
func UsualCodes() []string { return slices.Sorted(maps.Keys(usualErrors)) }

// usualErrors are errors by their codes, with the texts of the API reference,
// misspelt as they are there:
// https://www.alibabacloud.com/help/en/sdk/developer-reference/common-error-codes
// and the common error codes of CLB. What a load balancer cannot be bought for
// is a gate of the account, too.
var usualErrors = func() map[string]Failure {
	m := map[string]Failure{}
	for line := range strings.SplitSeq(errorTexts, "\n") {
		code, text, ok := strings.Cut(line, " ")
		if ok {
			m[code] = Failure{Status: errorStatus(code), Code: code, Message: text}
		}
	}
	return m
}()

// errorStatus returns the HTTP status of an error, which is 400 for most.
func errorStatus(code string) int {
	switch code {
	case "ServiceUnavailable":
		return http.StatusServiceUnavailable
	case "InternalError":
		return http.StatusInternalServerError
	case "BackendServer.configuring":
		return http.StatusConflict
	case "Forbidden", "Forbidden.RAM", "NoPermission", "NotAuthorized", "Forbbiden.SubUser", "Forbidden.NoPermission":
		return http.StatusForbidden
	}
	return http.StatusBadRequest
}

//go:embed errors.txt
var errorTexts string
