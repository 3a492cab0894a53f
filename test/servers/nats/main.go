// nats-server as released. If TENURE_WALL_CLOCK names a file, the wall clock is ahead by the number of seconds in that
// file.
package main

import (
	"flag"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	if path := os.Getenv("TENURE_WALL_CLOCK"); path != "" {
		go follow(path)
	}
	flags := flag.NewFlagSet("nats-server", flag.ExitOnError)
	options, err := server.ConfigureOptions(flags, os.Args[1:], server.PrintServerAndExit, flags.Usage, server.PrintTLSHelpAndDie)
	if err != nil {
		log.Fatal(err)
	}
	running, err := server.NewServer(options)
	if err != nil {
		log.Fatal(err)
	}
	running.ConfigureLogger()
	if err := server.Run(running); err != nil {
		log.Fatal(err)
	}
	running.WaitForShutdown()
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
