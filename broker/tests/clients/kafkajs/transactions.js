// Transactions: what readers of either isolation see, offsets that move with them, and fencing.

import { createInterface } from "node:readline"
import { expect, expectCode, kafka, newTopic, until, using, values, withAdmin } from "./suite.js"

/** A producer that has taken over its transactional id. */
const begun = (transactionalId, body) =>
  using(kafka().producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 }), body)

const send = (transaction, topic, partition, value) => transaction.send({ topic, messages: [{ partition, value }] })

const high = (topic) => withAdmin(async (a) => (await a.fetchTopicOffsets(topic)).find((p) => p.partition === 0).high)

/** Commit, abort, commit, over two partitions, and one left open while others read. */
export async function commitAndAbort() {
  const topic = await newTopic("txn", 2)
  await begun(topic, async (p) => {
    for (const name of ["a", "b", "c"]) {
      const transaction = await p.transaction()
      await send(transaction, topic, 0, `${name}0`)
      await send(transaction, topic, 1, `${name}1`)
      await (name === "b" ? transaction.abort() : transaction.commit())
    }
    const transaction = await p.transaction()
    await send(transaction, topic, 0, "open")
    expect("committed values of the first", await values(topic, 0, false), ["a0", "c0"])
    expect("committed values of the second", await values(topic, 1, false), ["a1", "c1"])
    expect("all values of the first", await values(topic, 0, true), ["a0", "b0", "c0", "open"])
    expect("all values of the second", await values(topic, 1, true), ["a1", "b1", "c1"])
    // Three records and three markers are before the open one; the client asks as a read_committed consumer does.
    expect("end", await high(topic), "6")
    await transaction.commit()
  })
  await until("the last marker is there", async () => (await high(topic)) === "8", () => high(topic))
  expect("committed values at last", await values(topic, 0, false), ["a0", "c0", "open"])
}

export async function offsets() {
  const topic = await newTopic("txn-offsets", 1)
  const committed = () =>
    withAdmin(async (a) => (await a.fetchOffsets({ groupId: topic, topics: [topic] }))[0].partitions[0].offset)
  await begun(topic, async (p) => {
    for (const [offset, end, wanted] of [["5", "commit", "5"], ["9", "abort", "5"], ["11", "commit", "11"]]) {
      const transaction = await p.transaction()
      await send(transaction, topic, 0, "value")
      await transaction.sendOffsets({ consumerGroupId: topic, topics: [{ topic, partitions: [{ partition: 0, offset }] }] })
      await transaction[end]()
      await until(`the offset after a ${end}`, async () => (await committed()) === wanted, committed)
    }
  })
}

export async function fencing() {
  const topic = await newTopic("fencing", 1)
  await begun(topic, async (old) => {
    const transaction = await old.transaction()
    await send(transaction, topic, 0, "old")
    await begun(topic, async (successor) => {
      const next = await successor.transaction()
      // The client speaks versions that are from before PRODUCER_FENCED.
      await expectCode("a commit of the old producer", "INVALID_PRODUCER_EPOCH", transaction.commit())
      await send(next, topic, 0, "new")
      await next.commit()
    })
  })
  expect("committed values", await values(topic, 0, false), ["new"])
  expect("all values", await values(topic, 0, true), ["old", "new"])
}

/**
 * What a user is told whose first EndTxn is held on its way, and let go in the middle of the next transaction. Not a check: the
 * script .ci/vulnerability holds, releases, and looks what became of the transactions. It is asked for each by a line on
 * standard output, and answers with one on standard input.
 */
export async function heldEndTxn() {
  const topic = await newTopic("held", 2)
  const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  const ask = async (what) => {
    console.log(what)
    await answers.next()
  }
  const told = async (call, promise) => {
    const what = await promise().then(() => "ok", (error) => `${error.name}: ${error.message}`)
    console.log(`told ${call}: ${what.replaceAll("\n", " ")}`)
  }
  const p = kafka({ requestTimeout: 3_000 }).producer({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1 })
  await p.connect()
  let transaction = await p.transaction()
  await send(transaction, topic, 0, "a")
  await ask(`hold ${topic}`)
  await told("commit of a", () => transaction.commit())
  await told("begin", async () => (transaction = await p.transaction()))
  await told("send of b", () => send(transaction, topic, 0, "b"))
  await ask("release")
  await told("send of c", () => send(transaction, topic, 1, "c"))
  await told("abort of b and c", () => transaction.abort())
  await p.disconnect()
}
