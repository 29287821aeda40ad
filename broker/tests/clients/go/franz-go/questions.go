package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"wavetank/clients/suite"
)

// questions are the open questions, asked of this client: what it does, row by row.
var questions = []suite.Case{
	{Name: "expiry", Run: expiry, ByNameOnly: true},
	{Name: "expiry-in-transaction", Run: expiryInTransaction, ByNameOnly: true},
	{Name: "late-produce", Run: lateProduce, ByNameOnly: true},
	{Name: "hanging-transaction", Run: hangingTransaction, ByNameOnly: true},
	{Name: "late-answer", Run: lateAnswer, ByNameOnly: true},
	{Name: "answers", Run: answers, ByNameOnly: true},
	{Name: "abort", Run: abort, ByNameOnly: true},
	{Name: "rebalance-eager", Run: func() { rebalanceInTransaction("eager", kgo.RangeBalancer()) }, ByNameOnly: true},
	{Name: "rebalance-cooperative", Run: func() { rebalanceInTransaction("cooperative", kgo.CooperativeStickyBalancer()) }, ByNameOnly: true},
}

// watched is a producer behind the proxy of which is written down what its user is told, and under which epochs and sequences its
// records went out. A try that is not answered ends after a second and a half; a record's
// time is over after 1.7.
type watched struct {
	*kgo.Client
	topic      string
	told, sent []string
	since      int64
}

func watch(topic string, options ...kgo.Opt) *watched {
	options = append(options, kgo.ClientID(topic), kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(500*time.Millisecond),
		kgo.RequestTimeoutOverhead(time.Second), kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(2*time.Second), kgo.TransactionTimeout(2*time.Minute),
		kgo.RecordDeliveryTimeout(1700*time.Millisecond))
	return &watched{Client: producer(options...), topic: topic}
}

func (w *watched) call(what string, err error) { w.told = append(w.told, what+" "+outcome(err)) }

func (w *watched) begin()  { w.call("begin", w.BeginTransaction()) }
func (w *watched) commit() { w.call("commit", w.EndTransaction(ctx, kgo.TryCommit)) }
func (w *watched) abort()  { w.call("abort", w.EndTransaction(ctx, kgo.TryAbort)) }

// send waits for what becomes of the record.
func (w *watched) send(value string) { w.sending(value)() }

// sending returns the wait for what becomes of the record.
func (w *watched) sending(value string) (ended func()) {
	w.since = suite.NextFrame()
	done := make(chan string, 1)
	w.Produce(ctx, record(w.topic, 0, value), func(r *kgo.Record, err error) { done <- offset(r, err) })
	return func() {
		w.told = append(w.told, value+" "+<-done)
		w.sent = append(w.sent, value+" "+strings.Join(suite.Stamps("client="+w.topic, w.since), "+"))
	}
}

func (w *watched) row(question string, sent ...string) {
	seen := func(isolation kgo.IsolationLevel) string { return strings.Join(values(w.topic, 0, isolation), " ") }
	suite.Row(question, strings.Join(append(w.sent, sent...), ", "), strings.Join(w.told, ", "),
		"committed: "+seen(kgo.ReadCommitted())+"; all: "+seen(kgo.ReadUncommitted()))
}

func offset(r *kgo.Record, err error) string {
	if err != nil {
		return outcome(err)
	}
	return fmt.Sprint("offset ", r.Offset)
}

// outcome is ok, the name of an error of Kafka's, or the first words of the client's own.
func outcome(err error) string {
	var of *kerr.Error
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &of):
		return of.Message
	default:
		text, _, _ := strings.Cut(err.Error(), ":")
		return text
	}
}

// unanswered: two tries of b are written and not answered, and its time is over during the second.
func (w *watched) unanswered(value string) {
	suite.Hold("Produce.reply client="+w.topic, 1)
	suite.Hold("Produce.reply client="+w.topic, 2)
	w.send(value)
}

func expiry() {
	w := watch(newTopic("expiry", 1))
	w.send("a")
	w.unanswered("b")
	w.send("c")
	w.row("11 expiry, no transaction")
}

func expiryInTransaction() {
	topic := newTopic("expiry-txn", 1)
	w := watch(topic, kgo.TransactionalID(topic))
	w.begin()
	w.send("a")
	w.commit()
	w.begin()
	w.unanswered("b")
	w.commit()
	w.begin()
	w.send("c")
	w.commit()
	w.row("11 expiry in a transaction")
}

// marked is how long markers may follow the answer to an end.
const marked = 300 * time.Millisecond

// aborted: transaction 1 sends b, whose first try is held on its way, and is aborted before there is another.
func aborted(topic string) (w *watched, held int) {
	w = watch(topic, kgo.TransactionalID(topic))
	w.begin()
	w.send("a")
	w.commit()
	w.begin()
	held = suite.Hold("Produce client="+topic, 1)
	ended := w.sending("b")
	suite.FirstFrame(w.since, func(f suite.Frame) bool { return f.What == "held" && f.Fault == held })
	w.call("drop of b", w.AbortBufferedRecords(ctx))
	ended()
	w.abort()
	time.Sleep(marked)
	return w, held
}

// lateProduce: b arrives in the middle of the next transaction.
func lateProduce() {
	w, held := aborted(newTopic("late-produce", 1))
	w.begin()
	w.send("c")
	w.call("late b answered "+suite.Release(held)+"; flush", w.Flush(ctx))
	w.commit()
	w.row("10 late, inside the next transaction")
}

// hangingTransaction: b arrives between the transactions; somebody else commits e behind it; then the producer commits its next.
func hangingTransaction() {
	topic := newTopic("hanging", 1)
	w, held := aborted(topic)
	w.call("late b answered "+suite.Release(held)+"; flush", w.Flush(ctx))
	other := producer(kgo.TransactionalID(topic + "-e"))
	suite.Must(other.BeginTransaction())
	suite.Must(other.ProduceSync(ctx, record(topic, 0, "e")).FirstErr())
	suite.Must(other.EndTransaction(ctx, kgo.TryCommit))
	other.Close()
	time.Sleep(marked)
	w.row("17 late, between transactions; then e")
	w.begin()
	w.send("c")
	w.commit()
	time.Sleep(marked)
	w.row("10 late, between transactions; then c")
}

// lateAnswer: the answer comes after four seconds, which this client waits by its defaults.
func lateAnswer() {
	topic := newTopic("late-answer", 1)
	w := &watched{Client: producer(kgo.ClientID(topic)), topic: topic}
	suite.Delay("Produce.reply client="+topic, 4*time.Second)
	w.send("a")
	w.row("3 an answer after 4 s", fmt.Sprint("sent ", suite.Count("Produce client="+topic, w.since), "x"))
}

// before is how many records there are before the one in question, so that its offset is not 0.
const before = 3

func answers() {
	topic := newTopic("answers", int32(len(suite.AnswerCodes)*len(suite.AnswerOffsets)*2))
	var told []string
	each := func(what func(code int16, answer, at int, baseOffset *int64)) {
		at := 0
		for _, code := range suite.AnswerCodes {
			for answer := 1; answer <= 2; answer++ {
				for _, baseOffset := range suite.AnswerOffsets {
					what(code, answer, at, baseOffset)
					at++
				}
			}
		}
	}
	each(func(code int16, answer, at int, baseOffset *int64) {
		told = append(told, answered(topic, int32(at), code, answer, baseOffset))
	})
	all := readAll(topic, kgo.ReadUncommitted())
	var cells []string
	each(func(code int16, answer, at int, _ *int64) {
		cell := told[at]
		if written := len(all[int32(at)]) - before; written != 1 {
			cell += fmt.Sprintf(", written %d times", written)
		}
		if cells = append(cells, cell); len(cells) == len(suite.AnswerOffsets) {
			suite.AnswerRow(code, answer, cells)
			cells = nil
		}
	})
}

// answered is what becomes of one record, whose nth answer is rewritten; those before it are lost.
func answered(topic string, partition int32, code int16, answer int, baseOffset *int64) string {
	id := fmt.Sprint(topic, "-", partition)
	c := producer(kgo.ClientID(id), kgo.ProducerLinger(0), kgo.MetadataMinAge(100*time.Millisecond))
	defer c.Close()
	for range before {
		suite.Must(c.ProduceSync(ctx, record(topic, partition, "before")).FirstErr())
	}
	for nth := 1; nth < answer; nth++ {
		suite.Reset("Produce.reply client="+id, nth)
	}
	suite.Rewrite("Produce.reply client="+id, answer, code, baseOffset)
	limit, done := context.WithTimeout(ctx, 10*time.Second)
	defer done()
	result := c.ProduceSync(limit, record(topic, partition, "x"))[0]
	return offset(result.Record, result.Err)
}
