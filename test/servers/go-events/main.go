// Reads a stream of Server-Sent Events with Go's own client, and prints the data of each event as it arrives.
package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strings"
)

func main() {
	request, err := http.NewRequest(http.MethodGet, os.Args[1], nil)
	if err != nil {
		panic(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, isData := strings.CutPrefix(lines.Text(), "data: "); isData {
			fmt.Println(data)
		}
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
}
