package multiclusterlease

import (
	"crypto/rand"
	"encoding/hex"
	"runtime/debug"

	"k8s.io/client-go/rest"
)

const modulePath = "github.com/tenure-js/tenure/go"

// ownConfig gives the lock its own connections and no rate limit, so that a renewal never waits behind the requests of
// the program. It uses HTTP/1.1, where a request that times out closes its connection. With HTTP/2, all requests would
// keep sharing a connection whose peer is gone, possibly for longer than a lease.
func ownConfig(config *rest.Config) *rest.Config {
	own := rest.CopyConfig(config)
	own.RateLimiter = nil
	own.QPS = -1
	own.Timeout = 0
	if own.Transport == nil && len(own.NextProtos) == 0 {
		own.NextProtos = []string{"http/1.1"}
	}
	if own.UserAgent == "" {
		own.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	own.UserAgent += " tenure-go/" + moduleVersion()
	return own
}

// moduleVersion returns the version of this module in the program, or "devel" if it was built from its own source.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, module := range info.Deps {
		if module.Path == modulePath && module.Version != "" && module.Version != "(devel)" {
			return module.Version
		}
	}
	return "devel"
}

func randomID() string {
	var bytes [16]byte
	// This never fails, because the program ends if the system has no randomness.
	_, _ = rand.Read(bytes[:])
	return hex.EncodeToString(bytes[:])
}
