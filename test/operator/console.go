package operator

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
)

// Console runs the console on a free port until ctx ends. It returns its address with the key, and a function that waits for the exit code.
func (c Call) Console(ctx context.Context, args ...string) (address string, ended func() int, err error) {
	out, in := io.Pipe()
	var errs bytes.Buffer // read after its end
	code := make(chan int, 1)
	go func() {
		code <- root.Run(ctx, c.Program(in, &errs), append([]string{"console", "--listen", "127.0.0.1:0"}, args...))
		in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if errors.Is(err, io.EOF) {
		return "", nil, fmt.Errorf("the console ended with code %d: %s", <-code, errs.String())
	}
	if err != nil {
		return "", nil, err
	}
	return strings.TrimSpace(line), func() int { return <-code }, nil
}
