// What the files of the kafkajs suite share: arguments, how a case tells what it found, waiting, clients.
//   node main.js --bootstrap HOST:PORT [--admin URL] [CASE…]
// One line a case; exits 1 if one failed.

import { isDeepStrictEqual, inspect } from "node:util"
import kafkajs from "kafkajs"

export const { Kafka, logLevel, AssignerProtocol } = kafkajs

/** Where agents are stopped and started, if known. */
export let admin_url = null
let bootstrap = null

class Failed extends Error {}
/** This client, or this server, has no such thing. */
class Skipped extends Error {}

export function fail(why) {
  throw new Failed(why)
}

export function skip(why) {
  throw new Skipped(why)
}

function shorten(value) {
  const text = inspect(value, { breakLength: Infinity, depth: 6 })
  return text.length <= 400 ? text : `${text.slice(0, 400)}… (${text.length} characters)`
}

export function expect(what, got, wanted) {
  if (!isDeepStrictEqual(got, wanted)) fail(`${what} (expected ${shorten(wanted)}, got ${shorten(got)})`)
}

/** That the promise is rejected with this protocol code, itself, as the error's cause, or as one of its parts. */
export async function expectCode(what, wanted, promise) {
  const told = await promise.then(
    () => ["no error"],
    (error) => codes(error),
  )
  if (!told.includes(wanted)) fail(`${what} (expected ${wanted}, got ${shorten(told)})`)
}

function codes(error) {
  const parts = [...(error.errors ?? []), error.cause].filter(Boolean).flatMap(codes)
  const groups = (error.groups ?? []).map((g) => g.error?.type)
  return [error.type ?? error.message, ...groups, ...parts]
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** Looks every tenth of a second until `holds`; fails after a minute with what `describe` tells. Both may be async. */
export async function until(what, holds, describe) {
  const deadline = Date.now() + 60_000
  while (!(await holds())) {
    if (Date.now() > deadline) fail(`not within a minute: ${what} (got ${shorten(await describe())})`)
    await sleep(100)
  }
}

const run = Date.now().toString(36)
let names = 0

/** A name for a topic or group that no other case and no other run has. */
export const newName = (name) => `kafkajs-${name}-${run}-${++names}`

export const range = (count) => [...Array(count).keys()]
export const numbered = (name, count) => range(count).map((i) => `${name} ${i}`)

export function kafka(settings = {}) {
  return new Kafka({ clientId: "wavetank", brokers: [bootstrap], logLevel: logLevel.NOTHING, ...settings })
}

/** Calls `body` with a connected client, and disconnects it. */
export async function using(client, body) {
  await client.connect()
  try {
    return await body(client)
  } finally {
    await client.disconnect()
  }
}

export const withAdmin = (body) => using(kafka().admin(), body)

/** Nothing is deleted: the records of some cases are of 2020. */
export async function newTopic(name, numPartitions) {
  const topic = newName(name)
  const configEntries = [{ name: "retention.ms", value: "-1" }]
  const topics = [{ topic, numPartitions, replicationFactor: 1, configEntries }]
  await withAdmin((a) => a.createTopics({ topics, waitForLeaders: true }))
  return topic
}

/**
 * What a consumer finds from the beginning, by partition, until each that is not empty gave something, and then ten
 * fetches in a row found nothing: the client does not tell where a log ends when the last is a marker. Settings: those of its consumer.
 */
export async function readAll(topic, settings = {}) {
  const found = {}
  const written = (await withAdmin((a) => a.fetchTopicOffsets(topic))).filter((p) => p.high !== "0").map((p) => p.partition)
  let emptyFetches = 0
  let crash = null
  const consumer = kafka().consumer({ groupId: newName("reader"), maxWaitTimeInMs: 200, ...settings })
  consumer.on(consumer.events.FETCH, (e) => (emptyFetches = e.payload.numberOfBatches > 0 ? 0 : emptyFetches + 1))
  consumer.on(consumer.events.CRASH, (e) => (crash = e.payload.error))
  await using(consumer, async () => {
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        ;(found[partition] ??= []).push(message)
        emptyFetches = 0
      },
    })
    await until("nothing comes any more", () => crash || (emptyFetches >= 10 && written.every((p) => found[p])), () => found)
    if (crash) throw crash
  })
  return found
}

/** The values of one partition, in order. */
export async function values(topic, partition, readUncommitted) {
  const found = await readAll(topic, { readUncommitted })
  return (found[partition] ?? []).map((m) => m.value && m.value.toString())
}

/** Asks for an agent to be stopped or started. */
export async function agent(node, verb) {
  const answer = await fetch(`${admin_url}/agents/${node}/${verb}`, { method: "POST" })
  expect(`${verb} of agent ${node}: status`, Math.floor(answer.status / 100), 2)
}

async function passes(name, test) {
  let line
  let passed = true
  const late = sleep(150_000).then(() => fail("not done within 150 s"))
  try {
    await Promise.race([test(), late])
    line = `ok ${name}`
  } catch (error) {
    if (error instanceof Skipped) {
      line = `skipped ${name}: ${error.message}`
    } else {
      const at = error instanceof Failed ? "" : ` at ${/[a-z]+\.js:\d+(?=:)/.exec(error.stack.split("\n").find((l) => !l.includes("node_modules") && l.includes("    at ")) ?? "")}`
      line = `FAILED ${name}: ${error.message}${at}`
      passed = false
    }
  }
  console.log(line.replaceAll("\n", " "))
  return passed
}

/** Runs the cases that the arguments name, or all of `cases`; those of `byNameOnly` run only when they are named. */
export async function main(cases, byNameOnly) {
  const names = []
  const rest = process.argv.slice(2)
  while (rest.length > 0) {
    const argument = rest.shift()
    if (argument === "--bootstrap") bootstrap = rest.shift()
    else if (argument === "--admin") admin_url = rest.shift()
    else names.push(argument)
  }
  const known = { ...cases, ...byNameOnly }
  let passed = true
  for (const name of names.length > 0 ? names : Object.keys(cases)) {
    passed = (await passes(name, known[name] ?? (async () => fail("no such case")))) && passed
  }
  // Not by returning: timers of what was cut off may be left.
  process.exit(passed ? 0 : 1)
}
