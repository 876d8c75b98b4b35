// What runs as the first process of every pod: it holds the pod's namespaces open, and ends when it is told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Children that nobody waits for are forgotten by the kernel, so that none stays as a zombie.
	signal.Ignore(syscall.SIGCHLD)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
