package controller_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// script writes a program that stands for a real controller.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ccm")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func realOptions() controller.Options {
	return controller.Options{
		Kube: &rest.Config{Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, BearerToken: "t"}, Cloud: "127.0.0.1:2",
		Credentials: sim.Credentials{AccessKeyID: "key", Secret: "secret"},
		ClusterID:   "c1", VPC: "vpc-1", VSwitches: []string{"cn-hangzhou-i:vsw-1", "cn-hangzhou-h:vsw-2"}, Backends: "eni",
	}
}

// TestRealIsTold looks at all that a real controller is started with.
func TestRealIsTold(t *testing.T) {
	out := t.TempDir()
	t.Setenv("PATH", "/bin:/usr/bin")
	t.Setenv("ACCESS_KEY_ID", "of somebody")
	bin := script(t, `env > `+out+`/env; cp kubeconfig cloud-config `+out+`; printf '%s\n' "$@" > `+out+`/args; echo broken >&2; exit 3`)
	t.Setenv(controller.BinaryVariable, bin)
	err := controller.Play(t.Context(), realOptions())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "broken") {
		t.Errorf("error %v", err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	env := "\n" + read("env")
	for _, want := range []string{
		"SLB_ENDPOINT=127.0.0.1:2", "ECS_ENDPOINT=127.0.0.1:2", "VPC_ENDPOINT=127.0.0.1:2", "NLB_ENDPOINT=127.0.0.1:2",
		"EFLO_CONTROLLER_ENDPOINT=127.0.0.1:2", "ALICLOUD_CLIENT_SCHEME=HTTP", "METADATA_ENDPOINT=http://127.0.0.1:2",
	} {
		if !strings.Contains(env, "\n"+want+"\n") {
			t.Errorf("%s is not in the environment", want)
		}
	}
	if strings.Contains(env, "ACCESS_KEY_ID") {
		t.Error("keys of the environment are handed on")
	}
	args := read("args")
	for _, want := range []string{
		"--controllers=service,nlb", "--configure-cloud-routes=false", "--leader-elect=false", "--pprof-bind-addr=0",
		"--concurrent-service-syncs=3", "--metrics-bind-addr=127.0.0.1:", "--health-probe-bind-addr=127.0.0.1:", "--kubeconfig=/", "--cloud-config=/",
	} {
		if !strings.Contains(args, want) {
			t.Errorf("%s is not in the arguments\n%s", want, args)
		}
	}
	var config struct {
		Global struct{ ClusterID, Region, Zoneid, Vpcid, Vswitchid, AccessKeyID, AccessKeySecret, ServiceBackendType string }
	}
	if err := json.Unmarshal([]byte(read("cloud-config")), &config); err != nil {
		t.Fatal(err)
	}
	g := config.Global
	if g.ClusterID != "c1" || g.Region != "cn-hangzhou" || g.Zoneid != "cn-hangzhou-i" || g.Vpcid != "vpc-1" || g.ServiceBackendType != "eni" ||
		g.Vswitchid != "cn-hangzhou-i:vsw-1,cn-hangzhou-h:vsw-2" || g.AccessKeyID != "a2V5" || g.AccessKeySecret != "c2VjcmV0" {
		t.Errorf("cloud config %+v", g)
	}
	kube, err := clientcmd.BuildConfigFromFlags("", filepath.Join(out, "kubeconfig"))
	if err != nil || kube.Host != "https://127.0.0.1:1" || kube.BearerToken != "t" {
		t.Errorf("kubeconfig for %+v, %v", kube, err)
	}
}

// TestRealEnds starts a program that goes on until it is told to end.
func TestRealEnds(t *testing.T) {
	// A reader of the pipe waits until the program has opened it.
	pipe := filepath.Join(t.TempDir(), "up")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	bin := script(t, `echo up > `+pipe+`; exec tail -f /dev/null`)
	t.Setenv(controller.BinaryVariable, bin)
	for _, start := range []func() func(){
		func() func() { return controller.StartReal(t, bin, realOptions()) },
		func() func() { return controller.StartPlay(t, realOptions()) },
	} {
		stop := start()
		if b, err := os.ReadFile(pipe); err != nil || string(b) != "up\n" {
			t.Fatalf("the program wrote %q, %v", b, err)
		}
		stop()
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := controller.RunReal(ctx, "/nowhere/ccm", realOptions()); err != nil {
		t.Errorf("ended before it began: %v", err)
	}
	if err := controller.RunReal(t.Context(), "/nowhere/ccm", realOptions()); err == nil || !strings.Contains(err.Error(), "/nowhere/ccm") {
		t.Errorf("no such program: %v", err)
	}
	if err := controller.RunReal(t.Context(), script(t, "exit 0"), realOptions()); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("a program that ends: %v", err)
	}
}
