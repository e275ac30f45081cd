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
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// pauseImage holds a Pod's namespaces. It contains only this program, which waits there.
const pauseImage = imageRegistry + "/pause:1"

func pause(ctx context.Context, _ []string) (int, error) {
	<-ctx.Done()
	return 0, nil
}

// containerdConfig keeps all of containerd's data below one directory. restrict_oom_score_adj avoids lowering the score of
// containers, which needs a capability that root often lacks in a container or a virtual machine.
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
	self, err := os.Executable()
	if err != nil {
		return err
	}
	images := []image{{pauseImage, self, []string{"pause"}}}
	for _, p := range platform.programs {
		if file := filepath.Join(c.bin, p.name); exists(file) {
			images = append(images, image{imageRegistry + "/" + p.name + ":1", file, nil})
		}
	}
	for _, i := range images {
		if err := c.importImage(ctx, d, i); err != nil {
			return err
		}
	}
	debug.FreeOSMemory() // it held images
	return nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func (c *nodeCluster) importImage(ctx context.Context, d *child, i image) error {
	all, err := i.tar()
	if err != nil {
		return fmt.Errorf("make the image %s: %w", i.name, err)
	}
	for deadline := time.Now().Add(patience); ; {
		cmd := exec.CommandContext(ctx, "ctr", "--address="+c.socket(), "--namespace=k8s.io", "images", "import", "-")
		cmd.Stdin = bytes.NewReader(all)
		out, err := cmd.CombinedOutput()
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
			return fmt.Errorf("import the image %s: %w\n%s", i.name, err, out)
		}
	}
}

type image struct {
	name    string
	program string // path
	args    []string
}

func (i image) tar() ([]byte, error) {
	program, err := os.ReadFile(i.program)
	if err != nil {
		return nil, err
	}
	if f, err := elf.NewFile(bytes.NewReader(program)); err != nil {
		return nil, err
	} else if f.Section(".interp") != nil {
		return nil, errors.New("it needs libraries: build it with CGO_ENABLED=0")
	}
	name, _, _ := strings.Cut(i.name[strings.LastIndexByte(i.name, '/')+1:], ":")
	layer, err := tarOf(map[string][]byte{name: program, "tmp/": nil})
	if err != nil {
		return nil, err
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
		data, _ := json.Marshal(v) // strings and numbers can always be encoded
		return blob(kind, data)
	}
	content := blob("application/vnd.oci.image.layer.v1.tar", layer)
	config := encoded("application/vnd.oci.image.config.v1+json", object{
		"architecture": runtime.GOARCH, "os": "linux", "rootfs": object{"type": "layers", "diff_ids": []any{content["digest"]}},
		"config": object{"Entrypoint": append([]string{"/" + name}, i.args...), "WorkingDir": "/", "User": "65532"},
	})
	manifest := encoded("application/vnd.oci.image.manifest.v1+json", object{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []object{content},
	})
	manifest["annotations"] = object{"io.containerd.image.name": i.name}
	if blobs["index.json"], err = json.Marshal(object{"schemaVersion": 2, "manifests": []object{manifest}}); err != nil {
		return nil, err
	}
	blobs["oci-layout"] = []byte(`{"imageLayoutVersion":"1.0.0"}`)
	return tarOf(blobs)
}

// tarOf returns files as a tar; a name that ends with a slash is a world-writable folder.
func tarOf(files map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data := files[name]
		header := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}
		if strings.HasSuffix(name, "/") {
			header = &tar.Header{Name: name, Mode: 0o1777, Typeflag: tar.TypeDir}
		}
		if err := w.WriteHeader(header); err != nil {
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
