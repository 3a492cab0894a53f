// etcd 3.6 as released. Debian has 3.4. If TENURE_WALL_CLOCK names a file, the wall clock is ahead by the number of
// seconds in that file.
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
