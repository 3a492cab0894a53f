// Consul 1.13 as released. If TENURE_WALL_CLOCK names a file, the wall clock is ahead by the number of seconds in that
// file.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/command"
	"github.com/hashicorp/consul/command/cli"
	mcli "github.com/mitchellh/cli"
)

func main() {
	if path := os.Getenv("TENURE_WALL_CLOCK"); path != "" {
		go follow(path)
	}
	log.SetOutput(io.Discard)
	ui := &cli.BasicUI{BasicUi: mcli.BasicUi{Writer: os.Stdout, ErrorWriter: os.Stderr}}
	program := &mcli.CLI{
		Args:       os.Args[1:],
		Commands:   command.RegisteredCommands(ui),
		Name:       "consul",
		HelpWriter: os.Stdout,
	}
	code, err := program.Run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func follow(path string) {
	for {
		if text, err := os.ReadFile(path); err == nil {
			if seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
				time.SetWallAhead(seconds)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}
