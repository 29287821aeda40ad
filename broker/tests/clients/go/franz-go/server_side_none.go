//go:build franz118

package main

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"wavetank/clients/suite"
)

func serverSide() kgo.Opt {
	suite.Skip("this version has no new group protocol")
	return nil
}
