//go:build !franz118

package main

import "github.com/twmb/franz-go/pkg/kgo"

// serverSide is the new group protocol.
func serverSide() kgo.Opt { return kgo.ServerSideBalancer() }
