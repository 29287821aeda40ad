package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"wavetank/clients/suite"
)

// filling is how many records each partition has.
const filling = 4

func filled(name string, partitions int32) string {
	topic := newTopic(name, partitions)
	c := producer()
	defer c.Close()
	for p := range partitions {
		for i := range filling {
			suite.Must(c.ProduceSync(ctx, record(topic, p, fmt.Sprint(i))).FirstErr())
		}
	}
	return topic
}

// session is this client's way of reading and writing in one transaction.
func session(topic string, balancer kgo.GroupBalancer) *kgo.GroupTransactSession {
	return suite.Get(kgo.NewGroupTransactSession(kgo.SeedBrokers(suite.Bootstrap), kgo.TransactionalID(topic),
		kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(balancer), kgo.HeartbeatInterval(200*time.Millisecond)))
}

// abort: two of four records are polled in a transaction that is aborted.
func abort() {
	topic := filled("position", 1)
	s := session(topic, kgo.RangeBalancer())
	defer s.Close()
	next := func() string {
		var all []string
		suite.Until("a poll hands records out", func() bool {
			limit, done := context.WithTimeout(ctx, 100*time.Millisecond)
			defer done()
			s.PollRecords(limit, 2).EachRecord(func(r *kgo.Record) { all = append(all, string(r.Value)) })
			return len(all) > 0
		}, func() any { return all })
		return strings.Join(all, " ")
	}
	suite.Must(s.Begin())
	first := next()
	committed, err := s.End(ctx, kgo.TryAbort)
	suite.Row("position after an abort", "polled "+first+", aborted", fmt.Sprint("committed ", committed, ", ", outcome(err)),
		"next poll: "+next())
}

// handed is how many records of each partition a member has been handed.
type handed struct {
	poll   func(context.Context) kgo.Fetches
	counts map[int32]int
}

func (h *handed) take() {
	limit, done := context.WithTimeout(ctx, 100*time.Millisecond)
	defer done()
	h.poll(limit).EachRecord(func(r *kgo.Record) { h.counts[r.Partition]++ })
}

func (h *handed) all() (count int) {
	for _, c := range h.counts {
		count += c
	}
	return count
}

// times is how often it has been handed the partition's records.
func (h *handed) times(partition int32) string {
	if count := h.counts[partition]; count%filling != 0 {
		return fmt.Sprintf("%d of %d records", count, filling)
	}
	return fmt.Sprintf("%dx", h.counts[partition]/filling)
}

// settle polls for a second: whatever is to be handed out again, is.
func settle(members ...*handed) {
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		for _, m := range members {
			m.take()
		}
	}
}

// rebalanceInTransaction: a member polls all of two partitions in a transaction; another joins; the first tries to commit.
func rebalanceInTransaction(how string, balancer kgo.GroupBalancer) {
	topic := filled("rebalance-"+how, 2)
	s := session(topic, balancer)
	defer s.Close()
	suite.Must(s.Begin())
	a := &handed{poll: s.PollFetches, counts: map[int32]int{}}
	suite.Until("the first has all", func() bool {
		a.take()
		return a.all() == 2*filling
	}, func() any { return a.counts })
	c := client(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.Balancers(balancer),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	b := &handed{poll: c.PollFetches, counts: map[int32]int{}}
	suite.Until("the second has polled one", func() bool {
		a.take()
		b.take()
		return len(b.counts) == 1 && b.all() == filling
	}, func() any { return b.counts })
	settle(a, b)
	var moved int32
	for p := range b.counts {
		moved = p
	}
	shared := fmt.Sprintf("kept: handed out %s; moved: to the other %s", a.times(1-moved), b.times(moved))
	suite.Must(s.Client().ProduceSync(ctx, record(newTopic("output", 1), 0, "written")).FirstErr())
	committed, err := s.End(ctx, kgo.TryCommit)
	settle(a, b)
	suite.Row("18 rebalance in a transaction, "+how, shared, fmt.Sprint("End(TryCommit): committed ", committed, ", ", outcome(err)),
		"then: kept handed out "+a.times(1-moved)+" in all")
}
