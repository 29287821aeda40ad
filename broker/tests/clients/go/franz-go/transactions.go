package main

import (
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"wavetank/clients/suite"
)

// commitAndAbort: commit, abort, commit, over two partitions, and one left open while others read.
func commitAndAbort() {
	topic := newTopic("txn", 2)
	c := producer(kgo.TransactionalID(topic))
	defer c.Close()
	for _, name := range []string{"a", "b", "c"} {
		suite.Must(c.BeginTransaction())
		suite.Must(c.ProduceSync(ctx, record(topic, 0, name+"0"), record(topic, 1, name+"1")).FirstErr())
		suite.Must(c.EndTransaction(ctx, kgo.TransactionEndTry(name != "b")))
	}
	suite.Must(c.BeginTransaction())
	suite.Must(c.ProduceSync(ctx, record(topic, 0, "open")).FirstErr())
	suite.Expect("committed values of the first", values(topic, 0, kgo.ReadCommitted()), []string{"a0", "c0"})
	suite.Expect("committed values of the second", values(topic, 1, kgo.ReadCommitted()), []string{"a1", "c1"})
	suite.Expect("all values of the first", values(topic, 0, kgo.ReadUncommitted()), []string{"a0", "b0", "c0", "open"})
	suite.Expect("all values of the second", values(topic, 1, kgo.ReadUncommitted()), []string{"a1", "b1", "c1"})
	// Three records and three markers are before the open one.
	suite.Expect("end for read_committed", ends(topic, kgo.ReadCommitted())[0], int64(6))
	suite.Expect("end for read_uncommitted", ends(topic, kgo.ReadUncommitted())[0], int64(7))
	suite.Must(c.EndTransaction(ctx, kgo.TryCommit))
	suite.Until("the last one is visible", func() bool { return ends(topic, kgo.ReadCommitted())[0] == 8 },
		func() any { return ends(topic, kgo.ReadCommitted()) })
	suite.Expect("committed values at last", values(topic, 0, kgo.ReadCommitted()), []string{"a0", "c0", "open"})
}

// transactionOffsets copies a topic by transactions that carry the group's offsets: an aborted one moves nothing, and is done again.
func transactionOffsets() {
	input, output := newTopic("txn-input", suite.GroupPartitions), newTopic("txn-output", 1)
	sent := send(input, "a", 10)
	session := suite.Get(kgo.NewGroupTransactSession(append(slices.Clone(classic), kgo.SeedBrokers(suite.Bootstrap),
		kgo.TransactionalID(input), kgo.ConsumerGroup(input), kgo.ConsumeTopics(input), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...))
	defer session.Close()
	suite.Expect("records of an aborted round", copied(session, output, len(sent), kgo.TryAbort), len(sent))
	suite.Expect("offsets after an abort", committed(input), suite.Everywhere(-1))
	suite.Expect("records of a committed round", copied(session, output, len(sent), kgo.TryCommit), len(sent))
	suite.UntilCommitted(func() []int64 { return committed(input) }, 10)
	found := values(output, 0, kgo.ReadCommitted())
	slices.Sort(found)
	suite.Expect("copied values", found, sent)
	suite.Expect("values copied in both rounds", len(values(output, 0, kgo.ReadUncommitted())), 2*len(sent))
}

// copied is how many records it took: transactions of what one poll gave, until `count` were copied.
func copied(session *kgo.GroupTransactSession, output string, count int, end kgo.TransactionEndTry) int {
	taken := 0
	suite.Must(session.Begin())
	for taken < count {
		fetches := session.PollFetches(ctx)
		suite.Must(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			session.Produce(ctx, record(output, 0, string(r.Value)), func(*kgo.Record, error) {})
			taken++
		})
	}
	// An abort drops what was not sent yet.
	suite.Must(session.Client().Flush(ctx))
	committed := suite.Get(session.End(ctx, end))
	suite.Expect("whether it is committed", committed, bool(end))
	return taken
}

func fencing() {
	topic := newTopic("fencing", 1)
	old := producer(kgo.TransactionalID(topic))
	defer old.Close()
	suite.Must(old.BeginTransaction())
	suite.Must(old.ProduceSync(ctx, record(topic, 0, "old")).FirstErr())
	successor := fence(topic)
	defer successor.Close()
	suite.Must(successor.BeginTransaction())
	suite.Must(successor.ProduceSync(ctx, record(topic, 0, "new")).FirstErr())
	err := old.EndTransaction(ctx, kgo.TryCommit)
	suite.Expect("a commit of the old producer is fenced", fenced(err), true)
	suite.Must(successor.EndTransaction(ctx, kgo.TryCommit))
	suite.Until("the new one is visible", func() bool { return ends(topic, kgo.ReadCommitted())[0] == 4 },
		func() any { return suite.Get(kadm.NewClient(successor).ListCommittedOffsets(ctx, topic)) })
	suite.Expect("committed values", values(topic, 0, kgo.ReadCommitted()), []string{"new"})
	suite.Expect("all values", values(topic, 0, kgo.ReadUncommitted()), []string{"old", "new"})
}

// fence is a producer that has taken over the transactional id. Version 1.18 gives up when it is told that it must wait for
// the transaction that it ends; a user makes another client then.
func fence(transactionalID string) *kgo.Client {
	for range 50 {
		c := producer(kgo.TransactionalID(transactionalID))
		_, _, err := c.ProducerID(ctx)
		if err == nil {
			return c
		}
		c.Close()
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			suite.Must(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	suite.Fail("no producer took over within fifty tries")
	return nil
}

// fenced: which of the two codes comes depends on the version of the request.
func fenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}

func heldEndTxn() {
	topic := newTopic("held", 2)
	// Read deadlines come after three seconds instead of ten.
	c := producer(kgo.TransactionalID(topic), kgo.RequestTimeoutOverhead(3*time.Second), kgo.ProduceRequestTimeout(3*time.Second))
	suite.HeldEndTxn{
		Topic:  topic,
		Begin:  c.BeginTransaction,
		Send:   func(p int32, value string) error { return c.ProduceSync(ctx, record(topic, p, value)).FirstErr() },
		Commit: func() error { return c.EndTransaction(ctx, kgo.TryCommit) },
		Abort:  func() error { return c.EndTransaction(ctx, kgo.TryAbort) },
	}.Run()
}
