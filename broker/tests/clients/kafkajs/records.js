// Topics by the admin client; records in and out.

import kafkajs from "kafkajs"
import { CODECS } from "./codecs.js"
import {
  admin_url, agent, expect, expectCode, kafka, newName, newTopic, numbered, range, readAll, skip, sleep, until, using, values, withAdmin,
} from "./suite.js"

const { ConfigResourceTypes } = kafkajs

/** The timestamp of the first record, ms; record i is i seconds later. */
const FIRST_MS = 1_600_000_000_000

export async function admin() {
  await withAdmin(async (a) => {
    const topic = newName("admin")
    const wanted = { topics: [{ topic, numPartitions: 3, replicationFactor: 1, configEntries: [{ name: "retention.ms", value: "3600000" }] }] }
    expect("a topic is made", await a.createTopics(wanted), true)
    expect("a topic is made twice", await a.createTopics(wanted), false)
    await expectCode("a topic with a space in its name", "INVALID_TOPIC_EXCEPTION", a.createTopics({ topics: [{ topic: "a b" }] }))

    const describe = async () => (await a.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions
    const nodes = (await a.describeCluster()).brokers.map((b) => b.nodeId)
    const described = await describe()
    expect("partitions", described.map((p) => p.partitionId).sort(), [0, 1, 2])
    for (const p of described) expect("the leader is a node of the cluster", nodes.includes(p.leader), true)
    expect("the list names it", (await a.listTopics()).includes(topic), true)

    const asked = { resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }], includeSynonyms: false }
    const config = (await a.describeConfigs(asked)).resources[0].configEntries
    const value = (name) => config.find((c) => c.configName === name)?.configValue
    expect("retention.ms", value("retention.ms"), "3600000")
    expect("retention.bytes", value("retention.bytes"), "-1")

    await a.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
    // A controller answers before its brokers know.
    await until("there are five partitions", async () => (await describe()).length === 5, describe)
    await expectCode("fewer partitions", "INVALID_PARTITIONS", a.createPartitions({ topicPartitions: [{ topic, count: 2 }] }))

    await a.deleteTopics({ topics: [topic] })
    await until("the topic is gone from the list", async () => !(await a.listTopics()).includes(topic), () => topic)
    await expectCode("a description of a deleted topic", "UNKNOWN_TOPIC_OR_PARTITION", describe())
    await expectCode("a topic deleted twice", "UNKNOWN_TOPIC_OR_PARTITION", a.deleteTopics({ topics: [topic], timeout: 5_000 }))
  })
}

/** Every tenth has no value; a header's key comes twice. */
const record = (partition, i) => ({
  partition,
  key: `k${i}`,
  value: i % 10 === 0 ? null : `${partition}-${i}`,
  timestamp: `${FIRST_MS + i * 1000}`,
  headers: { h: [`one ${i}`, "two"] },
})

const text = (bytes) => bytes && bytes.toString()

export async function produceConsume() {
  const topic = await newTopic("records", 3)
  await using(kafka().producer(), async (p) => {
    for (const partition of range(3)) {
      const told = await p.send({ topic, messages: range(100).map((i) => record(partition, i)) })
      expect("offset told", told.map((t) => [t.partition, t.baseOffset]), [[partition, "0"]])
    }
  })
  const found = await readAll(topic)
  for (const partition of range(3)) {
    const got = found[partition].map((m) => ({
      partition, key: text(m.key), value: text(m.value), timestamp: m.timestamp, headers: { h: m.headers.h.map(text) },
    }))
    expect(`records of ${partition}`, got, range(100).map((i) => record(partition, i)))
    expect(`offsets of ${partition}`, found[partition].map((m) => m.offset), range(100).map(String))
  }
  await largerThanAFetch()
}

/** Batches of about 500 kB, read by a consumer that asks for 50 kB at a time: it gets a whole one all the same. */
async function largerThanAFetch() {
  const topic = await newTopic("large", 1)
  const sent = range(40).map((i) => `large ${i} `.repeat(6_000).slice(0, 40_000))
  await using(kafka().producer(), async (p) => {
    for (const from of [0, 13, 26]) {
      const messages = sent.slice(from, from === 26 ? 40 : from + 13).map((value) => ({ value, partition: 0 }))
      await p.send({ topic, messages })
    }
  })
  const found = await readAll(topic, { maxBytesPerPartition: 50_000, maxBytes: 50_000 })
  expect("large records", found[0].length, 40)
  found[0].forEach((m, i) => expect(`large record ${i} is what was sent`, text(m.value) === sent[i], true))
}

export async function idempotent() {
  const topic = await newTopic("idempotent", 1)
  const sent = numbered("value", 1_000)
  await using(kafka().producer({ idempotent: true, maxInFlightRequests: 1 }), async (p) => {
    // One after the other: calls at once are sent in any order.
    for (let i = 0; i < 1_000; i += 20) {
      const messages = sent.slice(i, i + 20).map((value) => ({ value, partition: 0 }))
      const told = await p.send({ topic, messages, acks: -1 })
      expect("offset told", told[0].baseOffset, String(i))
    }
  })
  expect("values", await values(topic, 0, true), sent)
}

export const codec = (name) => async () => {
  const topic = await newTopic(name, 1)
  const sent = range(500).map((i) => `value ${i} ${"again ".repeat(i % 50)}`)
  await using(kafka().producer(), (p) =>
    p.send({ topic, compression: CODECS[name], messages: sent.map((value) => ({ value, partition: 0 })) }),
  )
  expect("values", await values(topic, 0, true), sent)
}

export async function offsets() {
  const topic = await newTopic("offsets", 1)
  await using(kafka().producer(), async (p) => {
    // Batches of ten: a look-up by time must find the right batch, and the record in it.
    for (const batch of range(5)) await p.send({ topic, messages: range(10).map((i) => record(0, batch * 10 + i)) })
  })
  await withAdmin(async (a) => {
    expect("beginning and end", await a.fetchTopicOffsets(topic), [{ partition: 0, offset: "50", high: "50", low: "0" }])
    const at = async (ms) => (await a.fetchTopicOffsetsByTimestamp(topic, ms))[0].offset
    expect("offset for a time between two records", await at(FIRST_MS + 22_500), "23")
    expect("offset for a record's own time", await at(FIRST_MS + 7_000), "7")
    // The client asks for the end where no record is so late.
    expect("offset for a time after all", await at(FIRST_MS + 60_000), "50")
  })
  await seeks(topic)
}

async function seeks(topic) {
  const consumer = kafka().consumer({ groupId: topic, maxWaitTimeInMs: 200 })
  const seen = []
  await using(consumer, async () => {
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => seen.push(message.offset) })
    await until("all is read", () => seen.length >= 50, () => seen)
    for (const offset of ["23", "0", "49"]) {
      seen.length = 0
      consumer.seek({ topic, partition: 0, offset })
      await until("something is read after a seek", () => seen.length > 0, () => seen)
      expect("first record after a seek", seen[0], offset)
      await until("the rest is read", () => seen.at(-1) === "49", () => seen)
    }
  })
}

/** A thousand records at a steady pace, while the agent that leads the partition stops, and comes back. */
export async function agentStopped() {
  if (!admin_url) skip("no address to stop an agent by")
  const topic = await newTopic("stopped", 1)
  const leader = await withAdmin(async (a) => (await a.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions[0].leader)
  const sent = numbered("value", 1_000)
  const settings = { idempotent: true, maxInFlightRequests: 1, retry: { retries: 50, maxRetryTime: 2_000 } }
  await using(kafka({ requestTimeout: 5_000 }).producer(settings), async (p) => {
    for (let i = 0; i < 1_000; i += 5) {
      const messages = sent.slice(i, i + 5).map((value) => ({ value, partition: 0 }))
      expect("offset told", (await p.send({ topic, messages }))[0].baseOffset, String(i))
      if (i === 300) await agent(leader, "stop")
      if (i === 700) await agent(leader, "start")
      await sleep(25)
    }
  })
  expect("values", await values(topic, 0, true), sent)
}
