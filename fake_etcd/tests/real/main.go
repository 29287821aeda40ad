// A real etcd server to compare with: builds from the module registry what `go install` refuses for its replace lines.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
