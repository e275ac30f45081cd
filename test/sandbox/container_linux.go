package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// pauseImage holds a Pod's namespaces. It consists of this program alone, which
// there does nothing.
const pauseImage = "lbremedy.local/pause:1"

// pause does nothing until it is told to end.
func pause(ctx context.Context, _ []string) (int, error) {
	<-ctx.Done()
	return 0, nil
}

// containerdConfig is containerd's with all that it writes below a directory. Without
// restrict_oom_score_adj it lowers the score of containers, which needs a capability
// that root often lacks in a container or a virtual machine.
const containerdConfig = `version = 2
root = "DIR/containerd"
state = "DIR/containerd-state"
[grpc]
  address = "DIR/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "DIR/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "PAUSE"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "PLUGINS"
    conf_dir = "DIR/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
`

// startContainerd starts containerd, gives it the image that each Pod needs, and
// describes the network of Pods.
func (c *nodeCluster) startContainerd(ctx context.Context) error {
	text := strings.NewReplacer("DIR", c.data, "PAUSE", pauseImage, "PLUGINS", cniPlugins).Replace(containerdConfig)
	type object = map[string]any
	if err := c.write("containerd.toml", []byte(text)); err != nil {
		return err
	}
	err := c.writeJSON("cni/10-node.conflist", object{"cniVersion": "0.4.0", "name": "node", "plugins": []object{
		{
			"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipam": object{
				"type": "host-local", "ranges": [][]object{{{"subnet": podAddresses}}}, "routes": []object{{"dst": "0.0.0.0/0"}},
			},
		},
		{"type": "portmap", "capabilities": object{"portMappings": true}},
	}})
	if err != nil {
		return err
	}
	d, err := c.spawn("containerd", "--config="+c.file("containerd.toml"))
	if err != nil {
		return err
	}
	image := c.file("pause.tar")
	if err := writePauseImage(image); err != nil {
		return fmt.Errorf("write the image of the pause container: %w", err)
	}
	for deadline := time.Now().Add(patience); ; {
		out, err := exec.CommandContext(ctx, "ctr", "--address="+c.socket(), "--namespace=k8s.io", "images", "import", image).CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.ended:
			return d.failure(d.cmd.ProcessState.String())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("import the image of the pause container: %w\n%s", err, out)
		}
	}
}

// writePauseImage writes the pause image as a tar of an OCI layout.
func writePauseImage(file string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	if f, err := elf.NewFile(bytes.NewReader(program)); err != nil {
		return err
	} else if f.Section(".interp") != nil {
		return errors.New("it is the sandbox itself, which needs libraries: build it with CGO_ENABLED=0")
	}
	const name = "pause"
	layer, err := tarOf(map[string][]byte{name: program})
	if err != nil {
		return err
	}
	type object = map[string]any
	blobs := map[string][]byte{}
	blob := func(kind string, data []byte) object {
		sum := sha256.Sum256(data)
		digest := hex.EncodeToString(sum[:])
		blobs["blobs/sha256/"+digest] = data
		return object{"mediaType": kind, "digest": "sha256:" + digest, "size": len(data)}
	}
	encoded := func(kind string, v object) object {
		data, _ := json.Marshal(v) // strings and numbers only
		return blob(kind, data)
	}
	content := blob("application/vnd.oci.image.layer.v1.tar", layer)
	config := encoded("application/vnd.oci.image.config.v1+json", object{
		"architecture": runtime.GOARCH, "os": "linux", "config": object{"Entrypoint": []string{"/" + name, "pause"}, "WorkingDir": "/"},
		"rootfs": object{"type": "layers", "diff_ids": []any{content["digest"]}},
	})
	manifest := encoded("application/vnd.oci.image.manifest.v1+json", object{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []object{content},
	})
	manifest["annotations"] = object{"io.containerd.image.name": pauseImage}
	if blobs["index.json"], err = json.Marshal(object{"schemaVersion": 2, "manifests": []object{manifest}}); err != nil {
		return err
	}
	blobs["oci-layout"] = []byte(`{"imageLayoutVersion":"1.0.0"}`)
	all, err := tarOf(blobs)
	if err != nil {
		return err
	}
	return os.WriteFile(file, all, 0o600)
}

// tarOf returns files as a tar.
func tarOf(files map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, data := range files {
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o755, Size: int64(len(data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
