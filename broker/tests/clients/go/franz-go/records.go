package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"wavetank/clients/suite"
)

// firstMs is the timestamp of the first record; record i is i seconds later.
const firstMs = 1_600_000_000_000

// numbered has no value in every tenth; a header's key comes twice, and one header has no value.
func numbered(topic string, partition int32, i int) *kgo.Record {
	r := record(topic, partition, fmt.Sprintf("%d-%d", partition, i))
	r.Key = fmt.Appendf(nil, "k%d", i)
	if i%10 == 0 {
		r.Value = nil
	}
	r.Timestamp = time.UnixMilli(firstMs + int64(i)*1000)
	r.Headers = []kgo.RecordHeader{
		{Key: "h", Value: fmt.Appendf(nil, "one %d", i)}, {Key: "h", Value: []byte("two")}, {Key: "none"},
	}
	return r
}

func produceConsume() {
	topic := newTopic("records", 3)
	c := producer()
	defer c.Close()
	for p := range int32(3) {
		var records []*kgo.Record
		for i := range 100 {
			records = append(records, numbered(topic, p, i))
		}
		for i, told := range c.ProduceSync(ctx, records...) {
			suite.Must(told.Err)
			suite.Expect(fmt.Sprint("offset told for record ", i), told.Record.Offset, int64(i))
		}
	}
	all := readAll(topic, kgo.ReadUncommitted())
	for p := range int32(3) {
		suite.Expect("records", len(all[p]), 100)
		for i, got := range all[p] {
			check(numbered(topic, p, i), got, int64(i))
		}
	}
	largerThanAFetch()
}

func check(sent, got *kgo.Record, offset int64) {
	where := fmt.Sprintf("partition %d record %d: ", sent.Partition, offset)
	suite.Expect(where+"offset", got.Offset, offset)
	suite.Expect(where+"timestamp", got.Timestamp.UnixMilli(), sent.Timestamp.UnixMilli())
	suite.Expect(where+"timestamp type (0 is CreateTime)", got.Attrs.TimestampType(), int8(0))
	suite.Expect(where+"key", got.Key, sent.Key)
	suite.Expect(where+"value", got.Value, sent.Value)
	suite.Expect(where+"headers", got.Headers, sent.Headers)
}

// largerThanAFetch reads batches of about 500 kB 50 kB at a time: the client gets a whole one all the same.
func largerThanAFetch() {
	topic := newTopic("large", 1)
	c := producer(kgo.ProducerBatchMaxBytes(500_000), kgo.ProducerLinger(200*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer c.Close()
	var records []*kgo.Record
	for i := range 40 {
		records = append(records, record(topic, 0, large(i)))
	}
	suite.Must(c.ProduceSync(ctx, records...).FirstErr())
	read := readAll(topic, kgo.ReadUncommitted(), kgo.FetchMaxBytes(50_000), kgo.FetchMaxPartitionBytes(50_000))[0]
	suite.Expect("large records", len(read), 40)
	for i, got := range read {
		suite.Expect(fmt.Sprintf("large record %d is what was sent", i), string(got.Value) == large(i), true)
	}
}

func large(i int) string {
	return strings.Repeat(fmt.Sprintf("large %d ", i), 6_000)[:40_000]
}

// idempotent: franz-go is so by default; small batches, so that there are many sequences.
func idempotent() {
	topic := newTopic("idempotent", 1)
	c := producer(kgo.ProducerBatchMaxBytes(1_024))
	defer c.Close()
	sent := suite.Numbered("value", 1_000)
	var records []*kgo.Record
	for _, value := range sent {
		records = append(records, record(topic, 0, value))
	}
	for i, told := range c.ProduceSync(ctx, records...) {
		suite.Must(told.Err)
		suite.Expect(fmt.Sprint("offset told for record ", i), told.Record.Offset, int64(i))
	}
	suite.Expect("values", values(topic, 0, kgo.ReadUncommitted()), sent)
}

func codec(c kgo.CompressionCodec) {
	topic := newTopic("codec", 1)
	p := producer(kgo.ProducerBatchCompression(c), kgo.ProducerLinger(20*time.Millisecond))
	defer p.Close()
	var sent []string
	var records []*kgo.Record
	for i := range 500 {
		sent = append(sent, fmt.Sprintf("value %d %s", i, strings.Repeat("again ", i%50)))
		records = append(records, record(topic, 0, sent[i]))
	}
	suite.Must(p.ProduceSync(ctx, records...).FirstErr())
	suite.Expect("values", values(topic, 0, kgo.ReadUncommitted()), sent)
}

func offsets() {
	topic := newTopic("offsets", 1)
	c := producer()
	defer c.Close()
	// Batches of ten: a look-up by time must find the right batch, and the record in it.
	for batch := range 5 {
		var records []*kgo.Record
		for i := range 10 {
			records = append(records, numbered(topic, 0, batch*10+i))
		}
		suite.Must(c.ProduceSync(ctx, records...).FirstErr())
	}
	a := kadm.NewClient(c)
	listed := func(all kadm.ListedOffsets, err error) int64 {
		suite.Must(err)
		found, _ := all.Lookup(topic, 0)
		suite.Must(found.Err)
		return found.Offset
	}
	suite.Expect("beginning", listed(a.ListStartOffsets(ctx, topic)), int64(0))
	suite.Expect("end", listed(a.ListEndOffsets(ctx, topic)), int64(50))
	between := suite.Get(a.ListOffsetsAfterMilli(ctx, firstMs+22_500, topic))
	found, _ := between.Lookup(topic, 0)
	suite.Expect("offset for a time between two records", found.Offset, int64(23))
	suite.Expect("timestamp found for that time", found.Timestamp, int64(firstMs+23_000))
	suite.Expect("offset for a record's own time", listed(a.ListOffsetsAfterMilli(ctx, firstMs+7_000, topic)), int64(7))
	// The admin client asks for the end where no record is so late.
	suite.Expect("offset for a time after all", listed(a.ListOffsetsAfterMilli(ctx, firstMs+60_000, topic)), int64(50))

	for _, at := range []struct {
		offset kgo.Offset
		first  int64
	}{
		{kgo.NewOffset().At(23), 23},
		{kgo.NewOffset().AtStart(), 0},
		{kgo.NewOffset().AtEnd().Relative(-1), 49},
		{kgo.NewOffset().AfterMilli(firstMs + 22_500), 23},
	} {
		reader := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: at.offset}}))
		fetches := reader.PollRecords(ctx, 1)
		suite.Must(fetches.Err())
		suite.Expect("first record from "+at.offset.String(), fetches.Records()[0].Offset, at.first)
		reader.Close()
	}
}

// agentStopped sends a thousand records at a steady pace, while the agent that leads the partition stops, and comes back.
func agentStopped() {
	if suite.Admin == "" {
		suite.Skip("no address to stop an agent by")
	}
	topic := newTopic("stopped", 1)
	c := producer()
	defer c.Close()
	leader := describe(topic).Partitions[0].Leader
	sent := suite.Numbered("value", 1_000)
	told := make([]int64, len(sent))
	for i, value := range sent {
		c.Produce(ctx, record(topic, 0, value), func(r *kgo.Record, err error) {
			told[i] = r.Offset
			if err != nil {
				told[i] = -1
			}
		})
		if i == 300 {
			suite.Agent(leader, "stop")
		}
		if i == 700 {
			suite.Agent(leader, "start")
		}
		time.Sleep(5 * time.Millisecond)
	}
	suite.Must(c.Flush(ctx))
	for i, offset := range told {
		suite.Expect(fmt.Sprint("offset told for record ", i), offset, int64(i))
	}
	suite.Expect("values", values(topic, 0, kgo.ReadUncommitted()), sent)
}
