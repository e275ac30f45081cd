package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/infra/ram"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// sample is the folder of the sample of a class in another language.
const sample = "functions/examples/python"

// declared adds what follows from the declaration in a folder, relative to the root: the RAM policy, the file of Serverless Devs, and the
// identity and rights in a cluster. The grants are exactly the declared reads and those of the declared steps: a hand in another language
// makes no other calls.
func declared(root, folder string, out map[string][]byte) error {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(folder), "class.yaml"))
	if err != nil {
		return fmt.Errorf("read the declaration: %w", err)
	}
	r, err := cli.ParseDeclared(text)
	if err != nil {
		return fmt.Errorf("%s/class.yaml: %w", folder, err)
	}
	grants := slices.Clone(r.Reads)
	for _, s := range r.Steps {
		grants = append(grants, s.Grants()...)
	}
	policy, err := ram.Policy(grants)
	if err != nil {
		return fmt.Errorf("write the RAM policy of %s: %w", r.Class, err)
	}
	to := path.Join(folder, "generated") + "/"
	if len(policy.Statement) > 0 {
		out[to+"ram.json"] = policy.JSON()
	}
	if out[to+"s.yaml"], err = deployment([]*remedy.Remedy{r}, runtimes[0]); err != nil { // LBREMEDY_FC_ZIPS names the folder of the zip
		return err
	}
	out[to+"kubernetes.yaml"], err = inCluster(r, grants)
	return err
}

// inCluster returns the identity of a declared class, its ClusterRole, and an admission policy of its own.
func inCluster(r *remedy.Remedy, grants []grant.Grant) ([]byte, error) {
	role, err := roles([]holder{{roleOf(r), grants}})
	if err != nil {
		return nil, err
	}
	only, err := admissionOf(roleOf(r), []admissionv1.MatchCondition{
		{Name: "own", Expression: fmt.Sprintf(`request.userInfo.username.matches('^system:serviceaccount:[^:]+:%s$')`, roleOf(r))},
	}, []*remedy.Remedy{r})
	if err != nil {
		return nil, err
	}
	who, err := identity(r)
	if err != nil {
		return nil, err
	}
	return slices.Concat(role, who, bytes.TrimPrefix(only, []byte(generated))), nil
}
