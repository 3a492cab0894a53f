// etcd 3.6 as it is released; Debian has 3.4. Where TENURE_WALL_CLOCK names a file, its wall clock is as many seconds
// ahead as that says.
package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	if path := os.Getenv("TENURE_WALL_CLOCK"); path != "" {
		go follow(path)
	}
	etcdmain.Main(os.Args)
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
