// Package stdin ties a process's life to its parent's.
package stdin

import (
	"io"
	"os"
	"syscall"
	"time"
)

// grace is how long a component may take to shut down once its parent is gone.
const grace = 3 * time.Second

// ExitWhenClosed asks the process to stop when standard input reaches its end,
// and ends it if it has not stopped within the grace period. The parent holds the
// other end of the pipe, so however the parent dies, nothing outlives it.
func ExitWhenClosed() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(grace)
		os.Exit(0)
	}()
}
