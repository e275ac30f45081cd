package testbed

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/sim"
)

// Function returns the environment of a class's function with only the class's rights. The function listens on port and accepts
// calls signed with one of the public keys. dir keeps its kubeconfig.
func (tb *Testbed) Function(ctx context.Context, class, dir, keys string, port int) ([]string, error) {
	if err := identity.Admit(ctx, tb.Cluster); err != nil {
		return nil, err
	}
	rights, err := identity.Of(class)
	if err != nil {
		return nil, err
	}
	if _, err := rights.Cluster(ctx, tb.Cluster, class); err != nil {
		return nil, err
	}
	config, err := clientcmd.LoadFromFile(tb.Cluster.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	for _, one := range config.AuthInfos {
		one.Impersonate, one.ImpersonateGroups = identity.User(class), []string{"system:authenticated"}
	}
	file := filepath.Join(dir, class+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return nil, fmt.Errorf("write the kubeconfig of %s: %w", class, err)
	}
	key := tb.Cloud.Client(identity.Name(class))
	if len(rights.Policy.Statement) > 0 {
		document := sim.Narrow(string(rights.Policy.JSON()), tb.Cloud.Snapshot().AccountID, tb.Cloud.Region(), tb.ID)
		key = tb.Cloud.Holder(identity.Name(class), document)
	}
	return []string{
		"LBREMEDY_CLUSTER=" + tb.ID, "LBREMEDY_REGION=" + tb.Cloud.Region(), "LBREMEDY_KUBECONFIG=" + file, "LBREMEDY_ENGINE_KEYS=" + keys,
		"LBREMEDY_CLOUD_ENDPOINT=" + tb.Cloud.Addr(), "LBREMEDY_CLOUD_SCHEME=HTTP", "PORT=" + strconv.Itoa(port),
		"ALIBABA_CLOUD_ACCESS_KEY_ID=" + key.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET=" + key.Secret, "ALIBABA_CLOUD_SECURITY_TOKEN=" + key.Token,
	}, nil
}
