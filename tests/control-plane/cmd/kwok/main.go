// kwok plays the kubelets of a managed cluster. It is a binary of its own because kwok and
// Kubernetes' component-base both define the global flag --version.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"

	"gitwork.dev/control-plane/stdin"
)

func main() {
	stdin.ExitWhenClosed()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	global.ParseErrorsWhitelist.UnknownFlags = true
	global.Usage = func() {}
	ctx, _ = log.InitFlags(ctx, global)
	ctx, err := config.InitFlags(ctx, global)
	if err == nil {
		command := cmd.NewCommand(ctx)
		command.PersistentFlags().AddFlagSet(global)
		err = command.ExecuteContext(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		os.Exit(1)
	}
}
