// Groups: who owns what through joins and leaves, that every record is handed out, committed offsets, the admin client.

import { AssignerProtocol, expect, expectCode, kafka, newTopic, range, until, using, withAdmin } from "./suite.js"

const PARTITIONS = 6

/** A member of the group that is named like its topic; it commits each record when it has handled it. */
async function join(topic, settings = {}) {
  const consumer = kafka(settings).consumer({
    groupId: topic, sessionTimeout: 10_000, heartbeatInterval: 500, rebalanceTimeout: 10_000, readUncommitted: true, maxWaitTimeInMs: 200,
  })
  const member = { owned: [], values: [], error: null, close: () => consumer.disconnect() }
  consumer.on(consumer.events.GROUP_JOIN, (e) => (member.owned = e.payload.memberAssignment[topic] ?? []))
  consumer.on(consumer.events.REBALANCING, () => (member.owned = []))
  consumer.on(consumer.events.CRASH, (e) => (member.error = e.payload.error))
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ message }) => member.values.push(message.value.toString()),
  })
  return member
}

/** Puts `count` records into every partition; returns their values. */
async function send(topic, name, count) {
  const all = range(PARTITIONS).map((p) => range(count).map((i) => `${name}-${p}-${i}`))
  await using(kafka().producer(), async (p) => {
    const messages = all.flatMap((values, partition) => values.map((value) => ({ value, partition })))
    await p.send({ topic, messages })
  })
  return all.flat()
}

/** By partition; "-1" is none. */
const committed = (topic) =>
  withAdmin(async (a) => {
    const found = (await a.fetchOffsets({ groupId: topic, topics: [topic] }))[0].partitions
    return range(PARTITIONS).map((p) => found.find((f) => f.partition === p)?.offset ?? "-1")
  })

const everywhere = (offset) => range(PARTITIONS).map(() => String(offset))

async function untilCommitted(topic, offset) {
  const holds = async () => String(await committed(topic)) === String(everywhere(offset))
  await until(`offset ${offset} is committed everywhere`, holds, () => committed(topic))
}

/** Every partition is owned by exactly one member, and every member has its equal share. */
async function untilShared(...members) {
  const holds = () => {
    const owned = members.flatMap((m) => m.owned).sort()
    return String(owned) === String(range(PARTITIONS)) && members.every((m) => m.owned.length === PARTITIONS / members.length)
  }
  await until(`${members.length} members share the partitions`, holds, () => members.map((m) => [m.owned, m.error]))
}

/** Two members, a third joins, the first leaves, all leave, a new one goes on where they were. Records come all the while. */
export async function rebalance() {
  const topic = await newTopic("group", PARTITIONS)
  const sent = await send(topic, "a", 20)
  const more = async (name) => sent.push(...(await send(topic, name, 20)))
  const [a, b] = await Promise.all([join(topic), join(topic)])
  await untilShared(a, b)
  await more("b")
  const c = await join(topic)
  await more("c")
  await untilShared(a, b, c)
  await more("d")
  await a.close()
  await more("e")
  await untilShared(b, c)
  const received = () => [a, b, c].flatMap((m) => m.values).sort()
  await until("all records are handed out", () => received().length >= sent.length, () => received().length)
  await untilCommitted(topic, 100)
  await Promise.all([b.close(), c.close()])
  expect("records, each handed out once", received(), sent.sort())

  const later = await send(topic, "f", 1)
  const d = await join(topic)
  await until("a new member goes on", () => d.values.length >= later.length, () => d.values)
  await untilCommitted(topic, 101)
  await d.close()
  expect("records of the new member", d.values.sort(), later.sort())
}

/** Describe, list, offsets by the admin client, and deletion: refused while there are members. */
export async function groupAdmin() {
  const topic = await newTopic("described", PARTITIONS)
  await send(topic, "a", 10)
  const member = await join(topic, { clientId: "described-client" })
  await untilShared(member)
  await untilCommitted(topic, 10)
  await withAdmin(async (a) => {
    const described = (await a.describeGroups([topic])).groups[0]
    expect("state", described.state, "Stable")
    expect("protocol", described.protocol, "RoundRobinAssigner")
    expect("members' clients", described.members.map((m) => m.clientId), ["described-client"])
    const { assignment } = AssignerProtocol.MemberAssignment.decode(described.members[0].memberAssignment)
    expect("the member's partitions", assignment[topic].sort(), range(PARTITIONS))
    await expectCode("a group with members deleted", "NON_EMPTY_GROUP", a.deleteGroups([topic]))
    await member.close()
    const listed = async () => (await a.listGroups()).groups.some((g) => g.groupId === topic)
    expect("the list names it", await listed(), true)
    await a.setOffsets({ groupId: topic, topic, partitions: range(PARTITIONS).map((partition) => ({ partition, offset: "4" })) })
    expect("offsets as altered", await committed(topic), everywhere(4))
    await a.deleteGroups([topic])
    expect("the list names it afterwards", await listed(), false)
    await expectCode("a group deleted twice", "GROUP_ID_NOT_FOUND", a.deleteGroups([topic]))
  })
}
