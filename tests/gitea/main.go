// gitea is the Gitea that tests run against. Its server ends with the process that started it.
package main

import (
	"io"
	"os"
	"syscall"
	"time"

	"code.gitea.io/gitea/cmd"
	"code.gitea.io/gitea/modules/log"
	"code.gitea.io/gitea/modules/setting"
	"github.com/urfave/cli/v3"

	// So that a README.md is shown as a page.
	_ "code.gitea.io/gitea/modules/markup/markdown"
)

// version is that of go.mod: Gitea shows it, and its API tells clients.
const version = "1.26.0"

// grace is how long the server may take to shut down once its parent is gone.
const grace = 3 * time.Second

func main() {
	// Git runs this program for the hooks of a push, with what is pushed on standard input.
	for _, argument := range os.Args[1:] {
		if argument == "web" {
			exitWhenClosed()
		}
	}
	setting.AppVer = version
	setting.AppStartTime = time.Now().UTC()
	cli.OsExiter = func(code int) {
		log.GetManager().Close()
		os.Exit(code)
	}
	app := cmd.NewMainApp(cmd.AppVersion{Version: version})
	err := cmd.RunMainApp(app, os.Args...)
	log.GetManager().Close()
	if err != nil {
		os.Exit(1)
	}
}

// exitWhenClosed asks the process to stop when standard input reaches its end. The parent holds
// the other end of the pipe, so however the parent dies, nothing outlives it.
func exitWhenClosed() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(grace)
		os.Exit(0)
	}()
}
