// CoreDNS with the plugins that the names of a cluster need. All of its plugins would bring the code of every cloud.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// The order in which a query passes them.
	dnsserver.Directives = []string{"ready", "errors", "kubernetes"}
	coremain.Run()
}
