package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"wavetank/clients/suite"
)

const groupPartitions = 6

func allPartitions() []int32 { return []int32{0, 1, 2, 3, 4, 5} }

var classic = []kgo.Opt{kgo.SessionTimeout(10 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond)}

// rebalance: two members, a third joins, the first leaves, all leave, a new one goes on where they were. Records come all the while.
func rebalance(balancers kgo.Opt) {
	options := append(slices.Clone(classic), balancers)
	topic := newTopic("group", groupPartitions)
	sent := send(topic, "a", 20)
	a, b := join(topic, topic, options...), join(topic, topic, options...)
	untilShared(a, b)
	sent = append(sent, send(topic, "b", 20)...)
	c := join(topic, topic, options...)
	sent = append(sent, send(topic, "c", 20)...)
	untilShared(a, b, c)
	sent = append(sent, send(topic, "d", 20)...)
	a.close()
	sent = append(sent, send(topic, "e", 20)...)
	untilShared(b, c)
	suite.Until("all records are handed out", func() bool { return len(received(a, b, c)) >= len(sent) },
		func() any { return len(received(a, b, c)) })
	untilCommitted(topic, 100)
	b.close()
	c.close()
	slices.Sort(sent)
	suite.Expect("records, each handed out once", received(a, b, c), sent)

	later := send(topic, "f", 1)
	d := join(topic, topic, options...)
	suite.Until("a new member goes on", func() bool { return len(received(d)) >= len(later) }, func() any { return received(d) })
	untilCommitted(topic, 101)
	d.close()
	suite.Expect("records of the new member", received(d), later)
}

// send puts `count` records into every partition of the topic; returns their values.
func send(topic, name string, count int) (sent []string) {
	c := producer()
	defer c.Close()
	var records []*kgo.Record
	for p := range int32(groupPartitions) {
		for i := range count {
			sent = append(sent, fmt.Sprintf("%s-%d-%d", name, p, i))
			records = append(records, record(topic, p, sent[len(sent)-1]))
		}
	}
	suite.Must(c.ProduceSync(ctx, records...).FirstErr())
	return sent
}

// committed offsets of the group that is named like its topic, by partition; -1 is none.
func committed(topic string) (found []int64) {
	c := client()
	defer c.Close()
	responses := suite.Get(kadm.NewClient(c).FetchOffsets(ctx, topic))
	for _, p := range allPartitions() {
		offset := int64(-1)
		if o, is := responses.Lookup(topic, p); is {
			suite.Must(o.Err)
			offset = o.At
		}
		found = append(found, offset)
	}
	return found
}

func untilCommitted(topic string, offset int64) {
	wanted := slices.Repeat([]int64{offset}, groupPartitions)
	suite.Until(fmt.Sprintf("offset %d is committed everywhere", offset),
		func() bool { return slices.Equal(committed(topic), wanted) }, func() any { return committed(topic) })
}

// staticMember that comes back within its session finds its partitions, and nobody notices.
func staticMember() {
	topic := newTopic("static", groupPartitions)
	options := []kgo.Opt{kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(30 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond)}
	first := join(topic, topic, append(slices.Clone(options), kgo.InstanceID("one"))...)
	second := join(topic, topic, append(slices.Clone(options), kgo.InstanceID("two"))...)
	untilShared(first, second)
	time.Sleep(time.Second)
	_, generation := first.client.GroupMetadata()
	changes, owned := first.changes, second.partitions()
	second.close()
	again := join(topic, topic, append(slices.Clone(options), kgo.InstanceID("two"))...)
	suite.Until("the member that came back owns its partitions",
		func() bool { return slices.Equal(again.partitions(), owned) }, func() any { return again.partitions() })
	time.Sleep(2 * time.Second)
	_, after := again.client.GroupMetadata()
	suite.Expect("generation of the one that came back", after, generation)
	_, after = first.client.GroupMetadata()
	suite.Expect("generation of the other", after, generation)
	suite.Expect("rebalances of the other meanwhile", first.changes-changes, 0)
	first.close()
	again.close()
}

// groupAdmin is describe, list, offsets by the admin client, and deletion: refused while there are members.
func groupAdmin() {
	topic := newTopic("described", groupPartitions)
	c := client()
	defer c.Close()
	a := kadm.NewClient(c)
	send(topic, "a", 10)
	m := join(topic, topic, append(slices.Clone(classic), kgo.Balancers(kgo.RangeBalancer()), kgo.ClientID("described-client"))...)
	untilShared(m)
	untilCommitted(topic, 10)
	described := suite.Get(a.DescribeGroups(ctx, topic))[topic]
	suite.Must(described.Err)
	suite.Expect("state", described.State, "Stable")
	suite.Expect("protocol", described.Protocol, "range")
	suite.Expect("members", len(described.Members), 1)
	suite.Expect("the member's client", described.Members[0].ClientID, "described-client")
	assigned, _ := described.Members[0].Assigned.AsConsumer()
	suite.Expect("the member's partitions", assigned.Topics[0].Partitions, allPartitions())
	_, err := a.DeleteGroup(ctx, topic)
	suite.Expect("a group with members deleted", err, error(kerr.NonEmptyGroup))
	m.close()
	_, listed := suite.Get(a.ListGroups(ctx))[topic]
	suite.Expect("the list names it", listed, true)

	moved := kadm.Offsets{}
	for _, p := range allPartitions() {
		moved.AddOffset(topic, p, 4, -1)
	}
	suite.Must(a.CommitAllOffsets(ctx, topic, moved))
	suite.Expect("offsets as altered", committed(topic), slices.Repeat([]int64{4}, groupPartitions))
	deleted := suite.Get(a.DeleteOffsets(ctx, topic, kadm.TopicsSet{topic: {2: {}}}))
	suite.Must(deleted.Error())
	suite.Expect("an offset that was deleted", committed(topic)[2], int64(-1))
	suite.Get(a.DeleteGroup(ctx, topic))
	_, listed = suite.Get(a.ListGroups(ctx))[topic]
	suite.Expect("the list names it afterwards", listed, false)
	_, err = a.DeleteGroup(ctx, topic)
	suite.Expect("a group deleted twice", err, error(kerr.GroupIDNotFound))
}
