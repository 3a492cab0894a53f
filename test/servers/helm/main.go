package main

import (
	"errors"
	"os"

	helm "helm.sh/helm/v4/pkg/cmd"
)

func main() {
	command, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
	if err == nil {
		err = command.Execute()
	}
	if coded := (helm.CommandError{}); errors.As(err, &coded) {
		os.Exit(coded.ExitCode)
	}
	if err != nil {
		os.Exit(1)
	}
}
