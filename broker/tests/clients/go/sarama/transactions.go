package main

import (
	"errors"
	"time"

	"github.com/IBM/sarama"

	"wavetank/clients/suite"
)

func begun(transactionalID string) sarama.SyncProducer {
	return producer(func(c *sarama.Config) {
		idempotence(c)
		c.Producer.Transaction.ID = transactionalID
	})
}

func send1(p sarama.SyncProducer, topic string, partition int32, value string) {
	_, _, err := p.SendMessage(record(topic, partition, value))
	suite.Must(err)
}

// commitAndAbort: commit, abort, commit, over two partitions, and one left open while others read.
func commitAndAbort() {
	topic := newTopic("txn", 2)
	p := begun(topic)
	defer p.Close()
	for _, name := range []string{"a", "b", "c"} {
		suite.Must(p.BeginTxn())
		send1(p, topic, 0, name+"0")
		send1(p, topic, 1, name+"1")
		if name == "b" {
			suite.Must(p.AbortTxn())
		} else {
			suite.Must(p.CommitTxn())
		}
	}
	suite.Must(p.BeginTxn())
	send1(p, topic, 0, "open")
	suite.Expect("committed values of the first", values(topic, 0, sarama.ReadCommitted), []string{"a0", "c0"})
	suite.Expect("committed values of the second", values(topic, 1, sarama.ReadCommitted), []string{"a1", "c1"})
	suite.Expect("all values of the first", values(topic, 0, sarama.ReadUncommitted), []string{"a0", "b0", "c0", "open"})
	suite.Expect("all values of the second", values(topic, 1, sarama.ReadUncommitted), []string{"a1", "b1", "c1"})
	// Three records and three markers are before the open one.
	suite.Expect("end for read_committed", end(topic, sarama.ReadCommitted), int64(6))
	suite.Expect("end for read_uncommitted", end(topic, sarama.ReadUncommitted), int64(7))
	suite.Must(p.CommitTxn())
	suite.Until("the last one is visible", func() bool { return end(topic, sarama.ReadCommitted) == 8 },
		func() any { return end(topic, sarama.ReadCommitted) })
	suite.Expect("committed values at last", values(topic, 0, sarama.ReadCommitted), []string{"a0", "c0", "open"})
}

func transactionOffsets() {
	topic := newTopic("txn-offsets", suite.GroupPartitions)
	p := begun(topic)
	defer p.Close()
	for _, round := range []struct {
		offset int64
		finish func() error
		wanted int64
	}{{5, p.CommitTxn, 5}, {9, p.AbortTxn, 5}, {11, p.CommitTxn, 11}} {
		suite.Must(p.BeginTxn())
		send1(p, topic, 0, "value")
		moved := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: round.offset}}}
		suite.Must(p.AddOffsetsToTxnWithGroupMetadata(moved, sarama.NewConsumerGroupMetadata(topic)))
		suite.Must(round.finish())
		suite.Until("the offset is what the last commit made it", func() bool { return committed(topic)[0] == round.wanted },
			func() any { return committed(topic) })
	}
}

func fencing() {
	topic := newTopic("fencing", 1)
	old := begun(topic)
	defer old.Close()
	suite.Must(old.BeginTxn())
	send1(old, topic, 0, "old")
	successor := begun(topic)
	defer successor.Close()
	err := old.CommitTxn()
	fenced := errors.Is(err, sarama.ErrProducerFenced) || errors.Is(err, sarama.ErrInvalidProducerEpoch)
	if !fenced {
		suite.Fail("a commit of the old producer (expected a fenced one, got %v)", err)
	}
	suite.Must(successor.BeginTxn())
	send1(successor, topic, 0, "new")
	suite.Must(successor.CommitTxn())
	suite.Expect("whether the old producer begins another transaction", old.BeginTxn() == nil, false)
	suite.Expect("committed values", values(topic, 0, sarama.ReadCommitted), []string{"new"})
	suite.Expect("all values", values(topic, 0, sarama.ReadUncommitted), []string{"old", "new"})
}

func heldEndTxn() {
	topic := newTopic("held", 2)
	p := producer(func(c *sarama.Config) {
		idempotence(c)
		c.Producer.Transaction.ID = topic
		c.Net.ReadTimeout = 3 * time.Second
	})
	suite.HeldEndTxn{
		Topic:  topic,
		Begin:  p.BeginTxn,
		Commit: p.CommitTxn,
		Abort:  p.AbortTxn,
		Send: func(partition int32, value string) error {
			_, _, err := p.SendMessage(record(topic, partition, value))
			return err
		},
	}.Run()
}
