// The suite of sarama: its cases, and clients as they use them. See package suite for how to call it.
package main

import (
	"errors"
	"time"

	"github.com/IBM/sarama"

	"wavetank/clients/suite"
)

func main() {
	suite.Main([]suite.Case{
		{Name: "admin", Run: admin},
		{Name: "produce-consume", Run: produceConsume},
		{Name: "idempotent", Run: idempotent},
		{Name: "codec-gzip", Run: func() { codec(sarama.CompressionGZIP) }},
		{Name: "codec-snappy", Run: func() { codec(sarama.CompressionSnappy) }},
		{Name: "codec-lz4", Run: func() { codec(sarama.CompressionLZ4) }},
		{Name: "codec-zstd", Run: func() { codec(sarama.CompressionZSTD) }},
		{Name: "offsets", Run: offsets},
		{Name: "group-eager", Run: func() { rebalance(sarama.NewBalanceStrategyRange) }},
		{Name: "group-cooperative", Run: func() { rebalance(sarama.NewBalanceStrategyCooperativeSticky) }},
		{Name: "group-consumer", Run: func() { suite.Skip("this client has no new group protocol") }},
		{Name: "group-static", Run: staticMember},
		{Name: "group-admin", Run: groupAdmin},
		{Name: "txn", Run: commitAndAbort},
		{Name: "txn-offsets", Run: transactionOffsets},
		{Name: "txn-fencing", Run: fencing},
		{Name: "agent-stopped", Run: agentStopped},
		{Name: "held-end-txn", Run: heldEndTxn, ByNameOnly: true},
	})
}

// settings are the client's defaults, in the newest protocol that it speaks, and those that its sync producer must have.
func settings(change func(*sarama.Config)) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	if change != nil {
		change(c)
	}
	return c
}

func idempotence(c *sarama.Config) {
	c.Producer.Idempotent = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Net.MaxOpenRequests = 1
}

func producer(change func(*sarama.Config)) sarama.SyncProducer {
	return suite.Get(sarama.NewSyncProducer([]string{suite.Bootstrap}, settings(change)))
}

func client(change func(*sarama.Config)) sarama.Client {
	return suite.Get(sarama.NewClient([]string{suite.Bootstrap}, settings(change)))
}

func clusterAdmin() sarama.ClusterAdmin {
	return suite.Get(sarama.NewClusterAdmin([]string{suite.Bootstrap}, settings(nil)))
}

// newTopic makes a topic with a name of this run. Nothing is deleted: the records of some cases are of 2020.
func newTopic(name string, partitions int32) string {
	a := clusterAdmin()
	defer a.Close()
	topic := suite.NewName("sarama", name)
	forever := "-1"
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &forever}}
	suite.Must(a.CreateTopic(topic, detail, false))
	return topic
}

func record(topic string, partition int32, value string) *sarama.ProducerMessage {
	return &sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.StringEncoder(value)}
}

// end of partition 0 for readers of this isolation.
func end(topic string, isolation sarama.IsolationLevel) int64 {
	a := clusterAdmin()
	defer a.Close()
	latest := map[string]map[int32]int64{topic: {0: sarama.OffsetNewest}}
	listed := suite.Get(a.ListOffsets(latest, &sarama.ListOffsetsOptions{IsolationLevel: isolation}))
	expectCode("an offset listed", listed[topic][0].Err, sarama.ErrNoError)
	return listed[topic][0].Offset
}

// read is what a consumer finds from an offset on, until nothing comes for two seconds after an answer: it does not tell where the
// log ends when the last is a marker.
func read(topic string, partition int32, from int64, isolation sarama.IsolationLevel, change func(*sarama.Config)) []*sarama.ConsumerMessage {
	c := client(func(c *sarama.Config) {
		c.Consumer.IsolationLevel = isolation
		if change != nil {
			change(c)
		}
	})
	defer c.Close()
	consumer := suite.Get(sarama.NewConsumerFromClient(c))
	defer consumer.Close()
	reader := suite.Get(consumer.ConsumePartition(topic, partition, from))
	defer reader.Close()
	var found []*sarama.ConsumerMessage
	for {
		select {
		case m := <-reader.Messages():
			found = append(found, m)
		case <-time.After(2 * time.Second):
			// Known from the first answer on; every log read here has something in it.
			if reader.HighWaterMarkOffset() > 0 {
				return found
			}
		}
	}
}

// values of one partition, in order.
func values(topic string, partition int32, isolation sarama.IsolationLevel) []string {
	var found []string
	for _, m := range read(topic, partition, 0, isolation, nil) {
		found = append(found, string(m.Value))
	}
	return found
}

// expectCode fails the case unless the error is this code, wrapped or not.
func expectCode(what string, err error, code sarama.KError) {
	if !errors.Is(err, code) {
		suite.Fail("%s (expected %v, got %v)", what, code, err)
	}
}
