package core

import (
	_ "embed"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Documented returns an error of the API reference with its text.
func Documented(code string) *Failure {
	f, ok := usualErrors[code]
	if !ok {
		panic("sim: no text for " + code)
	}
	return &f
}

// Usual returns an error that any action may return, and false for other codes.
func Usual(code string) (Failure, bool) {
	f, ok := usualErrors[code]
	return f, ok
}

// UsualCodes returns the codes of errors that any action may return, sorted.
func UsualCodes() []string { return slices.Sorted(maps.Keys(usualErrors)) }

// usualErrors are errors by code, with the texts of the API reference, including their misspellings
// (https://www.alibabacloud.com/help/en/sdk/developer-reference/common-error-codes) and the common error codes of CLB. The errors
// of an order for a load balancer are also gates of the account.
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
