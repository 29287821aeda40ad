package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"wavetank/clients/suite"
)

// handler tells a member what the client hands out; every message is committed before the next.
type handler struct {
	member     *suite.Member
	generation *atomic.Int32
}

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	h.generation.Store(session.GenerationID())
	return nil
}

func (h handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	h.member.Given(claim.Partition())
	defer h.member.Taken(claim.Partition())
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			h.member.Received(string(message.Value))
			session.MarkMessage(message, "")
			session.Commit()
		case <-session.Context().Done():
			return nil
		}
	}
}

// join is a member of the group that is named like its topic.
func join(topic string, change func(*sarama.Config)) (*suite.Member, func() int32) {
	group := suite.Get(sarama.NewConsumerGroup([]string{suite.Bootstrap}, topic, settings(change)))
	h := handler{&suite.Member{}, &atomic.Int32{}}
	joined, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for joined.Err() == nil {
			// It returns at every rebalance of an eager group.
			if err := group.Consume(joined, []string{topic}, h); err != nil && joined.Err() == nil {
				h.member.Met(err)
				return
			}
		}
	}()
	h.member.Close = func() {
		cancel()
		<-ended
		suite.Must(group.Close())
	}
	return h.member, h.generation.Load
}

func classic(strategy sarama.BalanceStrategy) func(*sarama.Config) {
	return func(c *sarama.Config) {
		c.Consumer.Group.Session.Timeout = 10 * time.Second
		c.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
		c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	}
}

func rebalance(strategy func() sarama.BalanceStrategy) {
	topic := newTopic("group", suite.GroupPartitions)
	suite.Rebalance(suite.Group{
		Join: func() *suite.Member {
			m, _ := join(topic, classic(strategy()))
			return m
		},
		Send:      func(name string, count int) []string { return send(topic, name, count) },
		Committed: func() []int64 { return committed(topic) },
	})
}

// send puts `count` records into every partition of the topic; returns their values.
func send(topic, name string, count int) (sent []string) {
	c := producer(nil)
	defer c.Close()
	var records []*sarama.ProducerMessage
	for _, p := range suite.AllPartitions() {
		for i := range count {
			sent = append(sent, fmt.Sprintf("%s-%d-%d", name, p, i))
			records = append(records, record(topic, p, sent[len(sent)-1]))
		}
	}
	suite.Must(c.SendMessages(records))
	return sent
}

// committed offsets of the group, by partition; -1 is none.
func committed(topic string) (found []int64) {
	a := clusterAdmin()
	defer a.Close()
	response := suite.Get(a.ListConsumerGroupOffsets(topic, map[string][]int32{topic: suite.AllPartitions()}))
	for _, p := range suite.AllPartitions() {
		block := response.GetBlock(topic, p)
		suite.Expect("code of a committed offset", block.Err, sarama.ErrNoError)
		found = append(found, block.Offset)
	}
	return found
}

func staticMember() {
	topic := newTopic("static", suite.GroupPartitions)
	suite.StaticMember(func(instance string) (*suite.Member, func() int32) {
		return join(topic, func(c *sarama.Config) {
			classic(sarama.NewBalanceStrategyRange())(c)
			c.Consumer.Group.Session.Timeout = 30 * time.Second
			c.Consumer.Group.InstanceId = instance
		})
	})
}

// groupAdmin is describe, list, offsets by the admin client, and deletion: refused while there are members.
func groupAdmin() {
	a := clusterAdmin()
	defer a.Close()
	topic := newTopic("described", suite.GroupPartitions)
	send(topic, "a", 10)
	m, _ := join(topic, func(c *sarama.Config) {
		classic(sarama.NewBalanceStrategyRange())(c)
		c.ClientID = "described-client"
	})
	suite.UntilShared(m)
	suite.UntilCommitted(func() []int64 { return committed(topic) }, 10)
	described := suite.Get(a.DescribeConsumerGroups([]string{topic}))[0]
	suite.Expect("state", described.State, "Stable")
	suite.Expect("protocol", described.Protocol, "range")
	suite.Expect("members", len(described.Members), 1)
	for _, member := range described.Members {
		suite.Expect("the member's client", member.ClientId, "described-client")
		suite.Expect("the member's partitions", suite.Get(member.GetMemberAssignment()).Topics[topic], suite.AllPartitions())
	}
	expectCode("a group with members deleted", a.DeleteConsumerGroup(topic), sarama.ErrNonEmptyGroup)
	m.Leave()
	_, listed := suite.Get(a.ListConsumerGroups())[topic]
	suite.Expect("the list names it", listed, true)

	moved := map[int32]sarama.OffsetAndMetadata{}
	for _, p := range suite.AllPartitions() {
		moved[p] = sarama.OffsetAndMetadata{Offset: 4, LeaderEpoch: -1}
	}
	suite.Get(a.AlterConsumerGroupOffsets(topic, map[string]map[int32]sarama.OffsetAndMetadata{topic: moved}, nil))
	suite.Expect("offsets as altered", committed(topic), suite.Everywhere(4))
	suite.Must(a.DeleteConsumerGroupOffset(topic, topic, 2))
	suite.Expect("an offset that was deleted", committed(topic)[2], int64(-1))
	suite.Must(a.DeleteConsumerGroup(topic))
	_, listed = suite.Get(a.ListConsumerGroups())[topic]
	suite.Expect("the list names it afterwards", listed, false)
	expectCode("a group deleted twice", a.DeleteConsumerGroup(topic), sarama.ErrGroupIDNotFound)
}
