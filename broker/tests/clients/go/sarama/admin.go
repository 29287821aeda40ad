package main

import (
	"github.com/IBM/sarama"

	"wavetank/clients/suite"
)

// admin is topics by the admin client.
func admin() {
	a := clusterAdmin()
	defer a.Close()
	topic := suite.NewName("sarama", "admin")
	retention := "3600000"
	detail := &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &retention}}
	suite.Must(a.CreateTopic(topic, detail, false))
	expectCode("a topic made twice", a.CreateTopic(topic, detail, false), sarama.ErrTopicAlreadyExists)
	expectCode("a topic with a space in its name", a.CreateTopic("a b", detail, false), sarama.ErrInvalidTopic)

	brokers, _, err := a.DescribeCluster()
	suite.Must(err)
	described := suite.Get(a.DescribeTopics([]string{topic}))[0]
	suite.Expect("partitions", len(described.Partitions), 3)
	for _, p := range described.Partitions {
		leads := false
		for _, b := range brokers {
			leads = leads || b.ID() == p.Leader
		}
		suite.Expect("the leader is a node of the cluster", leads, true)
	}
	suite.Expect("the list names it with its partitions", suite.Get(a.ListTopics())[topic].NumPartitions, int32(3))

	found := map[string]string{}
	for _, entry := range suite.Get(a.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})) {
		found[entry.Name] = entry.Value
	}
	suite.Expect("retention.ms", found["retention.ms"], "3600000")
	suite.Expect("retention.bytes", found["retention.bytes"], "-1")

	suite.Must(a.CreatePartitions(topic, 5, nil, false))
	// A controller answers before its brokers know.
	partitions := func() int { return len(suite.Get(a.DescribeTopics([]string{topic}))[0].Partitions) }
	suite.Until("there are five partitions", func() bool { return partitions() == 5 }, func() any { return partitions() })
	expectCode("fewer partitions", a.CreatePartitions(topic, 2, nil, false), sarama.ErrInvalidPartitions)

	suite.Must(a.DeleteTopic(topic))
	suite.Until("the topic is gone from the list", func() bool {
		_, is := suite.Get(a.ListTopics())[topic]
		return !is
	}, func() any { return topic })
	gone := suite.Get(a.DescribeTopics([]string{topic}))[0]
	suite.Expect("a description of a deleted topic", gone.Err, sarama.ErrUnknownTopicOrPartition)
	expectCode("a topic deleted twice", a.DeleteTopic(topic), sarama.ErrUnknownTopicOrPartition)
}
