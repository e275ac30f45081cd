package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Load returns the configuration of the kubeconfig file and context. Without a file it uses the cluster of this pod, else $KUBECONFIG,
// else the kubeconfig in the home directory; without a context the file's current one.
func Load(kubeconfig, context string) (*rest.Config, error) {
	if kubeconfig == "" && context == "" {
		config, err := rest.InClusterConfig()
		if err == nil {
			return config, nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("read this pod's service account: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.Warner = func(error) {}
	rules.ExplicitPath = kubeconfig
	file, err := rules.Load()
	switch {
	case kubeconfig != "" && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no kubeconfig %s", kubeconfig)
	case err != nil:
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	case len(file.Clusters) == 0 && kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "":
		return nil, errors.New("no cluster to talk to: this is not a pod, KUBECONFIG is not set, and the home directory has no kubeconfig; name one with " +
			"--kubeconfig")
	case len(file.Clusters) == 0:
		return nil, fmt.Errorf("the kubeconfig %s names no cluster", strings.Join(rules.GetLoadingPrecedence(), ", "))
	}
	if context == "" && file.CurrentContext == "" {
		return nil, fmt.Errorf("the kubeconfig has no current context: name one of %s with --context", names(file.Contexts))
	}
	if _, ok := file.Contexts[context]; context != "" && !ok {
		return nil, fmt.Errorf("the kubeconfig has no context %q: it has %s", context, names(file.Contexts))
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*file, context, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return config, nil
}

// ContextNamespace returns the namespace of the context that Load would use, or default.
func ContextNamespace(kubeconfig, context string) (string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.Warner = func(error) {}
	rules.ExplicitPath = kubeconfig
	namespace, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context}).Namespace()
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	return namespace, nil
}

// Read returns the configuration of the current context in a kubeconfig. Files and programs that it names are errors: the text comes from elsewhere.
func Read(text []byte) (*rest.Config, error) {
	file, err := clientcmd.Load(text)
	if err != nil {
		return nil, errors.New("the file is not a kubeconfig") // the text may be in the error
	}
	for _, u := range file.AuthInfos {
		if u.Exec != nil || u.AuthProvider != nil || u.TokenFile != "" || u.ClientKey != "" || u.ClientCertificate != "" {
			return nil, errors.New("the kubeconfig names a file or a program of another machine: it has to hold the certificate or token itself")
		}
	}
	for _, c := range file.Clusters {
		if c.CertificateAuthority != "" {
			return nil, errors.New("the kubeconfig names a file with the API server's root certificates: it has to hold them itself")
		}
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*file, "", &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return config, nil
}

func names[T any](m map[string]T) string {
	if len(m) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// As returns the configuration for the holder of a bearer token, without config's credentials.
func As(config *rest.Config, token string) *rest.Config {
	c := rest.AnonymousClientConfig(config)
	c.BearerToken = token
	return c
}
