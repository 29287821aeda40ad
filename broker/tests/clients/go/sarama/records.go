package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"wavetank/clients/suite"
)

// firstMs is the timestamp of the first record; record i is i seconds later.
const firstMs = 1_600_000_000_000

// numbered has no value in every tenth; a header's key comes twice, and one header has no value.
func numbered(topic string, partition int32, i int) *sarama.ProducerMessage {
	r := record(topic, partition, fmt.Sprintf("%d-%d", partition, i))
	r.Key = sarama.StringEncoder(fmt.Sprint("k", i))
	if i%10 == 0 {
		r.Value = nil
	}
	r.Timestamp = time.UnixMilli(firstMs + int64(i)*1000)
	r.Headers = []sarama.RecordHeader{
		{Key: []byte("h"), Value: fmt.Appendf(nil, "one %d", i)}, {Key: []byte("h"), Value: []byte("two")}, {Key: []byte("none")},
	}
	return r
}

func produceConsume() {
	topic := newTopic("records", 3)
	c := producer(nil)
	defer c.Close()
	for p := range int32(3) {
		var records []*sarama.ProducerMessage
		for i := range 100 {
			records = append(records, numbered(topic, p, i))
		}
		suite.Must(c.SendMessages(records))
		for i, told := range records {
			suite.Expect(fmt.Sprint("offset told for record ", i), told.Offset, int64(i))
		}
		read := read(topic, p, 0, sarama.ReadUncommitted, nil)
		suite.Expect("records", len(read), 100)
		for i, got := range read {
			check(numbered(topic, p, i), got, int64(i))
		}
	}
	largerThanAFetch()
}

func check(sent *sarama.ProducerMessage, got *sarama.ConsumerMessage, offset int64) {
	where := fmt.Sprintf("partition %d record %d: ", sent.Partition, offset)
	suite.Expect(where+"offset", got.Offset, offset)
	suite.Expect(where+"timestamp", got.Timestamp.UnixMilli(), sent.Timestamp.UnixMilli())
	suite.Expect(where+"key", string(got.Key), string(suite.Get(sent.Key.Encode())))
	var value []byte
	if sent.Value != nil {
		value = suite.Get(sent.Value.Encode())
	}
	suite.Expect(where+"value", got.Value, value)
	var headers []string
	for _, h := range got.Headers {
		headers = append(headers, fmt.Sprintf("%s=%s", h.Key, h.Value))
	}
	// The client does not tell a header without a value from one with an empty one.
	suite.Expect(where+"headers", headers, []string{fmt.Sprint("h=one ", offset), "h=two", "none="})
}

// largerThanAFetch reads batches of about 500 kB 50 kB at a time: the client gets a whole one all the same.
func largerThanAFetch() {
	topic := newTopic("large", 1)
	c := producer(func(c *sarama.Config) {
		c.Producer.Flush.Bytes = 400_000
		c.Producer.Flush.Frequency = 200 * time.Millisecond
	})
	defer c.Close()
	var records []*sarama.ProducerMessage
	for i := range 40 {
		records = append(records, record(topic, 0, large(i)))
	}
	suite.Must(c.SendMessages(records))
	read := read(topic, 0, 0, sarama.ReadUncommitted, func(c *sarama.Config) { c.Consumer.Fetch.Default = 50_000 })
	suite.Expect("large records", len(read), 40)
	for i, got := range read {
		suite.Expect(fmt.Sprintf("large record %d is what was sent", i), string(got.Value) == large(i), true)
	}
}

func large(i int) string {
	return strings.Repeat(fmt.Sprintf("large %d ", i), 6_000)[:40_000]
}

func idempotent() {
	topic := newTopic("idempotent", 1)
	c := producer(func(c *sarama.Config) {
		idempotence(c)
		// Many sequences.
		c.Producer.Flush.MaxMessages = 20
	})
	defer c.Close()
	sent := suite.Numbered("value", 1_000)
	var records []*sarama.ProducerMessage
	for _, value := range sent {
		records = append(records, record(topic, 0, value))
	}
	suite.Must(c.SendMessages(records))
	for i, told := range records {
		suite.Expect(fmt.Sprint("offset told for record ", i), told.Offset, int64(i))
	}
	suite.Expect("values", values(topic, 0, sarama.ReadUncommitted), sent)
}

func codec(codec sarama.CompressionCodec) {
	topic := newTopic("codec", 1)
	c := producer(func(c *sarama.Config) {
		c.Producer.Compression = codec
		c.Producer.Flush.Frequency = 20 * time.Millisecond
	})
	defer c.Close()
	var sent []string
	var records []*sarama.ProducerMessage
	for i := range 500 {
		sent = append(sent, fmt.Sprintf("value %d %s", i, strings.Repeat("again ", i%50)))
		records = append(records, record(topic, 0, sent[i]))
	}
	suite.Must(c.SendMessages(records))
	suite.Expect("values", values(topic, 0, sarama.ReadUncommitted), sent)
}

func offsets() {
	topic := newTopic("offsets", 1)
	p := producer(nil)
	defer p.Close()
	// Batches of ten: a look-up by time must find the right batch, and the record in it.
	for batch := range 5 {
		var records []*sarama.ProducerMessage
		for i := range 10 {
			records = append(records, numbered(topic, 0, batch*10+i))
		}
		suite.Must(p.SendMessages(records))
	}
	c := client(nil)
	defer c.Close()
	for _, asked := range []struct {
		what         string
		time, wanted int64
	}{
		{"beginning", sarama.OffsetOldest, 0},
		{"end", sarama.OffsetNewest, 50},
		{"offset for a time between two records", firstMs + 22_500, 23},
		{"offset for a record's own time", firstMs + 7_000, 7},
		{"offset for a time after all", firstMs + 60_000, -1},
	} {
		suite.Expect(asked.what, suite.Get(c.GetOffset(topic, 0, asked.time)), asked.wanted)
	}
	for _, from := range []int64{23, 0, 49} {
		found := read(topic, 0, from, sarama.ReadUncommitted, nil)
		suite.Expect(fmt.Sprint("first record from ", from), found[0].Offset, from)
		suite.Expect(fmt.Sprint("records from ", from), int64(len(found)), 50-from)
	}
}

// agentStopped sends a thousand records at a steady pace, while the agent that leads the partition stops, and comes back.
func agentStopped() {
	if suite.Admin == "" {
		suite.Skip("no address to stop an agent by")
	}
	topic := newTopic("stopped", 1)
	c := client(func(c *sarama.Config) {
		idempotence(c)
		c.Producer.Retry.Max = 100
		c.Net.ReadTimeout = 5 * time.Second
	})
	defer c.Close()
	leader := suite.Get(c.Leader(topic, 0)).ID()
	p := suite.Get(sarama.NewAsyncProducerFromClient(c))
	sent := suite.Numbered("value", 1_000)
	go func() {
		for i, value := range sent {
			p.Input() <- record(topic, 0, value)
			if i == 300 {
				suite.Agent(leader, "stop")
			}
			if i == 700 {
				suite.Agent(leader, "start")
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	told := map[string]int64{}
	for range sent {
		select {
		case m := <-p.Successes():
			told[string(m.Value.(sarama.StringEncoder))] = m.Offset
		case err := <-p.Errors():
			suite.Must(err)
		}
	}
	suite.Must(p.Close())
	for i, value := range sent {
		suite.Expect("offset told for "+value, told[value], int64(i))
	}
	suite.Expect("values", values(topic, 0, sarama.ReadUncommitted), sent)
}
