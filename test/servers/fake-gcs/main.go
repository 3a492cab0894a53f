// An emulator of Google Cloud Storage, in memory.
package main

import (
	"flag"
	"log"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	port := flag.Uint("port", 4443, "where it listens, on 127.0.0.1")
	bucket := flag.String("bucket", "tenure", "a bucket that is there from the beginning")
	flag.Parse()
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", Port: uint16(*port)})
	if err != nil {
		log.Fatal(err)
	}
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: *bucket})
	select {}
}
