package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"wavetank/clients/suite"
)

var classic = []kgo.Opt{kgo.SessionTimeout(10 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond)}

// join is a member that commits what it has handled before it lets a rebalance go on. Groups are named like their topics.
func join(topic string, options ...kgo.Opt) (*suite.Member, *kgo.Client) {
	m := &suite.Member{}
	taken := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { m.Taken(partitions[topic]...) }
	c := client(append(options, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.BlockRebalanceOnPoll(),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.Given(partitions[topic]...)
		}),
		kgo.OnPartitionsRevoked(taken), kgo.OnPartitionsLost(taken))...)
	joined, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for joined.Err() == nil {
			handle(joined, m, c)
		}
	}()
	m.Close = func() {
		cancel()
		<-ended
		c.CloseAllowingRebalance()
	}
	return m, c
}

// handle is one poll.
func handle(joined context.Context, m *suite.Member, c *kgo.Client) {
	polling, done := context.WithTimeout(joined, 100*time.Millisecond)
	fetches := c.PollFetches(polling)
	done()
	fetches.EachRecord(func(r *kgo.Record) { m.Received(string(r.Value)) })
	if !fetches.Empty() {
		if err := c.CommitUncommittedOffsets(ctx); err != nil {
			m.Met(err)
		}
	}
	c.AllowRebalance()
}

func rebalance(balancers kgo.Opt) {
	options := append(slices.Clone(classic), balancers)
	topic := newTopic("group", suite.GroupPartitions)
	suite.Rebalance(suite.Group{
		Join: func() *suite.Member {
			m, _ := join(topic, options...)
			return m
		},
		Send:      func(name string, count int) []string { return send(topic, name, count) },
		Committed: func() []int64 { return committed(topic) },
	})
}

// send puts `count` records into every partition of the topic; returns their values.
func send(topic, name string, count int) (sent []string) {
	c := producer()
	defer c.Close()
	var records []*kgo.Record
	for _, p := range suite.AllPartitions() {
		for i := range count {
			sent = append(sent, fmt.Sprintf("%s-%d-%d", name, p, i))
			records = append(records, record(topic, p, sent[len(sent)-1]))
		}
	}
	suite.Must(c.ProduceSync(ctx, records...).FirstErr())
	return sent
}

// committed offsets of the group, by partition; -1 is none.
func committed(topic string) (found []int64) {
	c := client()
	defer c.Close()
	responses := suite.Get(kadm.NewClient(c).FetchOffsets(ctx, topic))
	for _, p := range suite.AllPartitions() {
		offset := int64(-1)
		if o, is := responses.Lookup(topic, p); is {
			suite.Must(o.Err)
			offset = o.At
		}
		found = append(found, offset)
	}
	return found
}

func staticMember() {
	topic := newTopic("static", suite.GroupPartitions)
	suite.StaticMember(func(instance string) (*suite.Member, func() int32) {
		m, c := join(topic, kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(30*time.Second),
			kgo.HeartbeatInterval(500*time.Millisecond), kgo.InstanceID(instance))
		return m, func() int32 {
			_, generation := c.GroupMetadata()
			return generation
		}
	})
}

// groupAdmin is describe, list, offsets by the admin client, and deletion: refused while there are members.
func groupAdmin() {
	topic := newTopic("described", suite.GroupPartitions)
	c := client()
	defer c.Close()
	a := kadm.NewClient(c)
	send(topic, "a", 10)
	m, _ := join(topic, append(slices.Clone(classic), kgo.Balancers(kgo.RangeBalancer()), kgo.ClientID("described-client"))...)
	suite.UntilShared(m)
	suite.UntilCommitted(func() []int64 { return committed(topic) }, 10)
	described := suite.Get(a.DescribeGroups(ctx, topic))[topic]
	suite.Must(described.Err)
	suite.Expect("state", described.State, "Stable")
	suite.Expect("protocol", described.Protocol, "range")
	suite.Expect("members", len(described.Members), 1)
	suite.Expect("the member's client", described.Members[0].ClientID, "described-client")
	assigned, _ := described.Members[0].Assigned.AsConsumer()
	suite.Expect("the member's partitions", assigned.Topics[0].Partitions, suite.AllPartitions())
	_, err := a.DeleteGroup(ctx, topic)
	suite.Expect("a group with members deleted", err, error(kerr.NonEmptyGroup))
	m.Leave()
	_, listed := suite.Get(a.ListGroups(ctx))[topic]
	suite.Expect("the list names it", listed, true)

	moved := kadm.Offsets{}
	for _, p := range suite.AllPartitions() {
		moved.AddOffset(topic, p, 4, -1)
	}
	suite.Must(a.CommitAllOffsets(ctx, topic, moved))
	suite.Expect("offsets as altered", committed(topic), suite.Everywhere(4))
	deleted := suite.Get(a.DeleteOffsets(ctx, topic, kadm.TopicsSet{topic: {2: {}}}))
	suite.Must(deleted.Error())
	suite.Expect("an offset that was deleted", committed(topic)[2], int64(-1))
	suite.Get(a.DeleteGroup(ctx, topic))
	_, listed = suite.Get(a.ListGroups(ctx))[topic]
	suite.Expect("the list names it afterwards", listed, false)
	_, err = a.DeleteGroup(ctx, topic)
	suite.Expect("a group deleted twice", err, error(kerr.GroupIDNotFound))
}
