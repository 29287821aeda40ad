package main

import (
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"wavetank/clients/suite"
)

// admin is topics by the admin client.
func admin() {
	c := client()
	defer c.Close()
	a := kadm.NewClient(c)
	topic := suite.NewName("franz-go", "admin")
	configs := map[string]*string{"retention.ms": kadm.StringPtr("3600000")}
	suite.Get(a.CreateTopic(ctx, 3, 1, configs, topic))
	_, err := a.CreateTopic(ctx, 3, 1, configs, topic)
	suite.Expect("a topic made twice", err, error(kerr.TopicAlreadyExists))
	_, err = a.CreateTopic(ctx, 1, 1, nil, "a b")
	suite.Expect("a topic with a space in its name", err, error(kerr.InvalidTopicException))

	nodes := suite.Get(a.ListBrokers(ctx)).NodeIDs()
	detail := describe(topic)
	suite.Expect("partitions", detail.Partitions.Numbers(), []int32{0, 1, 2})
	for _, p := range detail.Partitions {
		leads := false
		for _, node := range nodes {
			leads = leads || node == p.Leader
		}
		suite.Expect("the leader is a node of the cluster", leads, true)
	}
	suite.Expect("the list names it", suite.Get(a.ListTopics(ctx)).Has(topic), true)

	described := suite.Get(suite.Get(a.DescribeTopicConfigs(ctx, topic)).On(topic, nil))
	found := map[string]string{}
	for _, c := range described.Configs {
		found[c.Key] = c.MaybeValue()
	}
	suite.Expect("retention.ms", found["retention.ms"], "3600000")
	suite.Expect("retention.bytes", found["retention.bytes"], "-1")

	suite.Must(suite.Get(suite.Get(a.UpdatePartitions(ctx, 5, topic)).On(topic, nil)).Err)
	// A controller answers before its brokers know.
	partitions := func() int { return len(describe(topic).Partitions) }
	suite.Until("there are five partitions", func() bool { return partitions() == 5 }, func() any { return partitions() })
	fewer := suite.Get(a.UpdatePartitions(ctx, 2, topic))[topic]
	suite.Expect("fewer partitions", fewer.Err, error(kerr.InvalidPartitions))

	suite.Get(a.DeleteTopic(ctx, topic))
	suite.Until("the topic is gone from the list",
		func() bool { return !suite.Get(a.ListTopics(ctx)).Has(topic) }, func() any { return topic })
	suite.Expect("a description of a deleted topic", describe(topic).Err, error(kerr.UnknownTopicOrPartition))
	_, err = a.DeleteTopic(ctx, topic)
	suite.Expect("a topic deleted twice", err, error(kerr.UnknownTopicOrPartition))
}

// describe asks by a new client: one that asked before may answer from its memory.
func describe(topic string) kadm.TopicDetail {
	c := client()
	defer c.Close()
	return suite.Get(kadm.NewClient(c).ListTopics(ctx, topic))[topic]
}
