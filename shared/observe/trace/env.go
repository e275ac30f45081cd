package trace

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
)

// The OTLP exporter of the SDK ignores unreadable variables and uses its default, a collector that nobody named. Here they are errors.

// configured reports whether the environment names a collector, by OpenTelemetry's specification: the variable for traces takes precedence.
func configured() (bool, error) {
	const all, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	if os.Getenv(all) == "" && os.Getenv(traces) == "" || os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false, nil
	}
	switch kind := os.Getenv("OTEL_TRACES_EXPORTER"); kind {
	case "", "otlp":
	case "none":
		return false, nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: lbremedy sends traces with otlp, or none", clip(kind))
	}
	var errs []error
	for _, name := range []string{all, traces} {
		errs = append(errs, endpoint(name))
	}
	protocols := []string{"http/protobuf", "http/json"}
	name, protocol := either("PROTOCOL")
	if protocol != "" && !slices.Contains(protocols, protocol) {
		errs = append(errs, fmt.Errorf("%s is %q: lbremedy speaks %s and %s", name, clip(protocol), protocols[0], protocols[1]))
	}
	name, timeout := either("TIMEOUT")
	if n, err := strconv.Atoi(timeout); timeout != "" && (err != nil || n <= 0) {
		errs = append(errs, fmt.Errorf("%s is %q: give a number of milliseconds", name, clip(timeout)))
	}
	for _, file := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		if name, path := either(file); path != "" {
			if _, err := os.ReadFile(path); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
	}
	return true, errors.Join(errs...)
}

func either(name string) (variable, value string) {
	traces, all := "OTEL_EXPORTER_OTLP_TRACES_"+name, "OTEL_EXPORTER_OTLP_"+name
	if value = os.Getenv(traces); value != "" {
		return traces, value
	}
	return all, os.Getenv(all)
}

// endpoint returns what is wrong with a variable's URL, without its password.
func endpoint(variable string) error {
	text := os.Getenv(variable)
	if text == "" {
		return nil
	}
	const want = "give a URL such as http://collector:4318"
	u, err := url.Parse(text)
	if err != nil {
		if at, ok := errors.AsType[*url.Error](err); ok {
			err = at.Err // the URL itself stays out of it
		}
		return fmt.Errorf("%s is not a URL: %w: %s", variable, err, want)
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "1"), 10, 16)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%s has the scheme %q and not http or https: %s", variable, clip(u.Scheme), want)
	case u.Hostname() == "":
		return fmt.Errorf("%s names no host: %s", variable, want)
	case err != nil || port == 0:
		return fmt.Errorf("%s has the port %q, which does not exist: %s", variable, clip(u.Port()), want)
	case u.User != nil:
		return fmt.Errorf("%s holds a user: put what the collector asks for into OTEL_EXPORTER_OTLP_HEADERS", variable)
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s holds more than a path: %s", variable, want)
	}
	return nil
}
