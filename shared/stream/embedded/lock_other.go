//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package embedded

import (
	"fmt"
	"os"
)

// hold keeps the file open. Systems that forbid removing an open file notice a second server by that; others have nothing that ends with the process.
func hold(name string) (*os.File, error) {
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("%w; stop it, or choose another directory", ErrInUse)
	}
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}
