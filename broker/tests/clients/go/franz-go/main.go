// The suite of franz-go: its cases, and clients as they use them. See package suite for how to call it.
package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"wavetank/clients/suite"
)

func main() {
	cases := []suite.Case{
		{Name: "admin", Run: admin},
		{Name: "produce-consume", Run: produceConsume},
		{Name: "idempotent", Run: idempotent},
		{Name: "codec-gzip", Run: func() { codec(kgo.GzipCompression()) }},
		{Name: "codec-snappy", Run: func() { codec(kgo.SnappyCompression()) }},
		{Name: "codec-lz4", Run: func() { codec(kgo.Lz4Compression()) }},
		{Name: "codec-zstd", Run: func() { codec(kgo.ZstdCompression()) }},
		{Name: "offsets", Run: offsets},
		{Name: "group-eager", Run: func() { rebalance(kgo.Balancers(kgo.RangeBalancer())) }},
		{Name: "group-cooperative", Run: func() { rebalance(kgo.Balancers(kgo.CooperativeStickyBalancer())) }},
		{Name: "group-consumer", Run: func() { rebalance(serverSide()) }},
		{Name: "group-static", Run: staticMember},
		{Name: "group-admin", Run: groupAdmin},
		{Name: "txn", Run: commitAndAbort},
		{Name: "txn-offsets", Run: transactionOffsets},
		{Name: "txn-fencing", Run: fencing},
		{Name: "agent-stopped", Run: agentStopped},
		{Name: "held-end-txn", Run: heldEndTxn, ByNameOnly: true},
	}
	suite.Main(append(cases, questions...))
}

// ctx ends with the program; the suite bounds each case.
var ctx = context.Background()

func client(options ...kgo.Opt) *kgo.Client {
	return suite.Get(kgo.NewClient(append(options, kgo.SeedBrokers(suite.Bootstrap))...))
}

// producer sends each record to the partition that the record names.
func producer(options ...kgo.Opt) *kgo.Client {
	return client(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
}

// newTopic makes a topic with a name of this run. Nothing is deleted: the records of some cases are of 2020.
func newTopic(name string, partitions int32) string {
	c := client()
	defer c.Close()
	topic := suite.NewName("franz-go", name)
	suite.Get(kadm.NewClient(c).CreateTopic(ctx, partitions, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, topic))
	return topic
}

func record(topic string, partition int32, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
}

// ends is the end offset of each partition for readers of this isolation.
func ends(topic string, isolation kgo.IsolationLevel) map[int32]int64 {
	c := client()
	defer c.Close()
	a := kadm.NewClient(c)
	listed := suite.Get(a.ListEndOffsets(ctx, topic))
	if isolation == kgo.ReadCommitted() {
		listed = suite.Get(a.ListCommittedOffsets(ctx, topic))
	}
	found := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) {
		suite.Must(o.Err)
		found[o.Partition] = o.Offset
	})
	return found
}

// readAll is all that a consumer of this isolation finds from the beginning to what is the end now, in order, by partition.
func readAll(topic string, isolation kgo.IsolationLevel, options ...kgo.Opt) map[int32][]*kgo.Record {
	left := ends(topic, isolation)
	begin := map[int32]kgo.Offset{}
	for p, end := range left {
		begin[p] = kgo.NewOffset().AtStart()
		if end == 0 {
			delete(left, p)
		}
	}
	// Markers are kept, so that the end is seen when a marker is the last.
	c := client(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: begin}),
		kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())...)
	defer c.Close()
	found := map[int32][]*kgo.Record{}
	for len(left) > 0 {
		fetches := c.PollFetches(ctx)
		suite.Must(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				found[r.Partition] = append(found[r.Partition], r)
			}
			if r.Offset >= left[r.Partition]-1 {
				delete(left, r.Partition)
			}
		})
	}
	return found
}

// values of one partition, in order.
func values(topic string, partition int32, isolation kgo.IsolationLevel) []string {
	var found []string
	for _, r := range readAll(topic, isolation)[partition] {
		found = append(found, string(r.Value))
	}
	return found
}
