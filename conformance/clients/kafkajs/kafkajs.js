// kafkajs against a broker: topics, produce, fetch by offset and by timestamp, groups, admin.
//
// node kafkajs.js HOST:PORT   prints `ok` or `FAIL` for each step, then `N passed, N failed`; exit code 1 where a step failed.
// kafkajs brings gzip, and kafkajs-snappy adds snappy; lz4 and zstd would need native modules. It has no IncrementalAlterConfigs,
// so that the older AlterConfigs is what it tests.

const assert = require('assert')
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const RECORDS_PER_PARTITION = 200
const MILLISECONDS_BETWEEN_RECORDS = 10
const CODECS = [
  ['none', CompressionTypes.None],
  ['gzip', CompressionTypes.GZIP],
  ['snappy', CompressionTypes.Snappy],
] // one partition each
const PLAIN_PARTITION = CODECS.length // written without idempotence, acks=1
const PARTITIONS = PLAIN_PARTITION + 1

if (process.argv.length !== 3) {
  console.error('usage: node kafkajs.js HOST:PORT')
  process.exit(2)
}
const bootstrap = process.argv[2]
const run = Date.now().toString(36)
const topic = `kafkajs-${run}`
const shortLivedTopic = `kafkajs-short-lived-${run}`
const groupId = `kafkajs-group-${run}`
const firstTimestamp = Date.now() - 3600000 // an hour ago, so that no retention limit removes what is written

const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 5 } })
const admin = kafka.admin()
const partitioner = { createPartitioner: () => ({ message }) => message.partition }

// ---- steps

let passed = 0
let failed = 0

async function step(name, action) {
  const start = Date.now()
  try {
    await action()
    passed += 1
    console.log(`ok   ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`)
  } catch (error) {
    failed += 1
    console.log(`FAIL ${name}: ${error.name}: ${String(error.message).replace(/\s+/g, ' ').slice(0, 300)}`)
  }
}

const sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))

// Repeats the call until it gives what is wanted: metadata reaches a broker a moment after a change is acknowledged.
async function eventually(call, wanted, seconds = 10) {
  const deadline = Date.now() + seconds * 1000
  for (;;) {
    let got
    try {
      got = await call()
    } catch (error) {
      got = error.type || error.message
    }
    if (got === wanted) return
    assert(Date.now() < deadline, `after ${seconds} s: wanted ${wanted}, got ${got}`)
    await sleep(100)
  }
}

async function expectError(call, ...types) {
  let result
  try {
    result = await call()
  } catch (error) {
    // kafkajs wraps errors in others; the innermost say what the broker answered.
    const refused = [...(error.errors || []), ...(error.groups || []).map(one => one.error)]
    const wrapped = [error, error.cause, error.originalError, ...refused].filter(one => one)
    const told = wrapped.map(one => one.type || one.message)
    assert(told.some(type => types.includes(type)), `wanted ${types.join(' or ')}, got ${told.join(', ')}`)
    return
  }
  assert.fail(`wanted ${types.join(' or ')}, but the call gave ${JSON.stringify(result)}`)
}

// ---- records

// Records with every shape: with and without key, an empty value, a null value (a tombstone), duplicate header keys.
function makeRecords(partition) {
  const records = []
  for (let index = 0; index < RECORDS_PER_PARTITION; index++) {
    const key = index % 7 === 0 ? null : `key-${index}`
    let value = `kafkajs ${partition} record ${index}, some text that a codec can make smaller, smaller, smaller`
    if (index % 11 === 3) value = ''
    if (index % 11 === 5 && key !== null) value = null
    const headers = index % 3 === 0 ? { trace: [`first ${index}`, 'second'], empty: '' } : {}
    records.push({ key, value, headers, timestamp: String(firstTimestamp + index * MILLISECONDS_BETWEEN_RECORDS) })
  }
  return records
}

const records = Array.from({ length: PARTITIONS }, (_, partition) => makeRecords(partition))

async function produce(partition, compression, configuration, acks) {
  const producer = kafka.producer({ ...partitioner, ...configuration })
  await producer.connect()
  try {
    // Three requests, so that sequence numbers go on from one to the next.
    let expectedOffset = 0
    for (const [from, to] of [[0, 1], [1, 120], [120, RECORDS_PER_PARTITION]]) {
      const messages = records[partition].slice(from, to).map(record => ({ ...record, partition }))
      const [answer] = await producer.send({ topic, messages, compression, acks })
      assert.strictEqual(answer.baseOffset, String(expectedOffset), 'base offset')
      expectedOffset = to
    }
  } finally {
    await producer.disconnect()
  }
}

// kafkajs offers reading through consumer groups only. This reads without one, through its own cluster, fetch and decoding,
// which the client object keeps under a private symbol.
function newCluster() {
  const symbol = Object.getOwnPropertySymbols(kafka).find(one => one.toString().includes('createCluster'))
  return kafka[symbol]({ metadataMaxAge: 300000, allowAutoTopicCreation: false })
}

const asText = value => (Array.isArray(value) ? value.map(asText) : value === null ? null : value.toString())
const textHeaders = headers => Object.fromEntries(Object.entries(headers).map(([key, value]) => [key, asText(value)]))

// Reads the partition from an offset to its end.
async function read(partition, offset, maxBytes = 1048576) {
  const cluster = newCluster()
  await cluster.connect()
  try {
    await cluster.addTargetTopic(topic)
    const { leader } = cluster.findTopicPartitionMetadata(topic).find(one => one.partitionId === partition)
    const broker = await cluster.findBroker({ nodeId: leader })
    const got = []
    for (;;) {
      const fetchOffset = offset + got.length
      const topics = [{ topic, partitions: [{ partition, fetchOffset: String(fetchOffset), maxBytes }] }]
      const answer = await broker.fetch({ isolationLevel: 1, maxWaitTime: 500, minBytes: 1, maxBytes, topics })
      const { highWatermark, messages } = answer.responses[0].partitions[0]
      for (const message of messages) {
        if (Number(message.offset) < fetchOffset) continue // the start of the batch that holds the offset asked for
        assert.strictEqual(Number(message.offset), offset + got.length, 'offset')
        const { key, value, headers, timestamp } = message
        got.push({ key: asText(key), value: asText(value), headers: textHeaders(headers), timestamp: String(timestamp) })
      }
      if (offset + got.length >= Number(highWatermark)) return got
      assert(messages.length > 0, `nothing at offset ${fetchOffset}, below the high watermark ${highWatermark}`)
    }
  } finally {
    await cluster.disconnect()
  }
}

// ---- what the steps do

const topicResource = { type: ConfigResourceTypes.TOPIC, name: topic }

async function configurationOf(resource) {
  const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [resource] })
  return Object.fromEntries(resources[0].configEntries.map(entry => [entry.configName, entry.configValue]))
}

async function partitionCount() {
  return (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length
}

async function partitionOffsets(partition) {
  return (await admin.fetchTopicOffsets(topic)).find(one => one.partition === partition)
}

async function offsetForTime(partition, timestamp) {
  const offsets = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp)
  return Number(offsets.find(one => one.partition === partition).offset)
}

async function createTopic() {
  const configEntries = [{ name: 'retention.ms', value: '86400000' }]
  const topics = [{ topic, numPartitions: PARTITIONS, replicationFactor: 1, configEntries }]
  assert.strictEqual(await admin.createTopics({ topics, waitForLeaders: true }), true)
  await eventually(partitionCount, PARTITIONS)
}

async function createTopicAgain() {
  assert.strictEqual(await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] }), false)
}

async function readEverything() {
  for (let partition = 0; partition < PARTITIONS; partition++) {
    assert.deepStrictEqual(await read(partition, 0), records[partition])
  }
}

async function offsetsByTimestamp() {
  const at50 = firstTimestamp + 50 * MILLISECONDS_BETWEEN_RECORDS
  const afterAll = firstTimestamp + RECORDS_PER_PARTITION * MILLISECONDS_BETWEEN_RECORDS
  for (let partition = 0; partition < PARTITIONS; partition++) {
    assert.strictEqual(await offsetForTime(partition, firstTimestamp - 1), 0, 'before the first record')
    assert.strictEqual(await offsetForTime(partition, at50), 50, 'at record 50')
    assert.strictEqual(await offsetForTime(partition, at50 + 1), 51, 'just after record 50')
    // Where no record is as late, kafkajs gives the end of the partition.
    assert.strictEqual(await offsetForTime(partition, afterAll), RECORDS_PER_PARTITION, 'after the last record')
  }
}

async function readFromTimestamp() {
  const offset = await offsetForTime(2, firstTimestamp + 120 * MILLISECONDS_BETWEEN_RECORDS - 3)
  assert.deepStrictEqual(await read(2, offset), records[2].slice(120))
}

async function describeBrokerConfiguration() {
  const { brokers } = await admin.describeCluster()
  const configuration = await configurationOf({ type: ConfigResourceTypes.BROKER, name: String(brokers[0].nodeId) })
  for (const name of ['num.partitions', 'log.dirs', 'advertised.listeners']) {
    assert(name in configuration, `${name} is missing`)
  }
}

async function describeTopicConfiguration() {
  const configuration = await configurationOf(topicResource)
  assert.strictEqual(configuration['cleanup.policy'], 'delete')
  assert.strictEqual(configuration['retention.ms'], '86400000')
}

async function alterConfiguration() {
  const alter = (name, value) => admin.alterConfigs({ resources: [{ ...topicResource, configEntries: [{ name, value }] }] })
  // The whole of the topic's own configuration is replaced by what is sent.
  await alter('max.message.bytes', '2000000')
  await eventually(async () => (await configurationOf(topicResource))['max.message.bytes'], '2000000')
  await eventually(async () => (await configurationOf(topicResource))['retention.ms'] === '86400000', false)
  await alter('retention.ms', '86400000')
  await eventually(async () => (await configurationOf(topicResource))['retention.ms'], '86400000')
  await expectError(() => alter('retention.ms', 'abc'), 'INVALID_CONFIG', 'INVALID_REQUEST')
}

async function describeCluster() {
  const { brokers, controller, clusterId } = await admin.describeCluster()
  assert(clusterId, 'no cluster id')
  assert(brokers.some(broker => broker.nodeId === controller), `the controller ${controller} is none of the brokers`)
}

async function groupOffsets() {
  const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] })
  return partitions.map(one => Number(one.offset))
}

async function readInAGroup() {
  const consumer = kafka.consumer({ groupId })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  let count = 0
  const all = new Promise(resolve => {
    consumer.run({
      autoCommitThreshold: 1,
      eachMessage: async () => {
        count += 1
        if (count === PARTITIONS * RECORDS_PER_PARTITION) resolve()
      },
    })
  })
  await Promise.race([all, sleep(30000)])
  await consumer.disconnect()
  assert.strictEqual(count, PARTITIONS * RECORDS_PER_PARTITION, 'records')
  assert.deepStrictEqual(await groupOffsets(), Array(PARTITIONS).fill(RECORDS_PER_PARTITION), "the group's offsets")
}

async function listAndDescribeGroup() {
  assert((await admin.listGroups()).groups.some(one => one.groupId === groupId), 'it is not listed')
  const [{ state, members }] = (await admin.describeGroups([groupId])).groups
  assert.deepStrictEqual([state, members], ['Empty', []], 'description')
}

async function alterGroupOffsets() {
  await admin.setOffsets({ groupId, topic, partitions: [{ partition: 2, offset: '17' }] })
  assert.strictEqual((await groupOffsets())[2], 17)
  await admin.resetOffsets({ groupId, topic, earliest: true })
  assert.deepStrictEqual(await groupOffsets(), Array(PARTITIONS).fill(-2), 'offsets that stand for the earliest')
}

async function deleteGroup() {
  await admin.deleteGroups([groupId])
  assert(!(await admin.listGroups()).groups.some(one => one.groupId === groupId), 'it is still listed')
  await expectError(() => admin.deleteGroups([groupId]), 'GROUP_ID_NOT_FOUND')
}

async function createPartitions() {
  await admin.createPartitions({ topicPartitions: [{ topic, count: PARTITIONS + 2 }] })
  await eventually(partitionCount, PARTITIONS + 2)
  await eventually(async () => (await read(PARTITIONS + 1, 0)).length, 0)
}

async function createFewerPartitions() {
  const topicPartitions = [{ topic, count: 1 }]
  await expectError(() => admin.createPartitions({ topicPartitions }), 'INVALID_PARTITIONS')
}

async function deleteRecords() {
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 1, offset: '60' }] })
  assert.strictEqual((await partitionOffsets(1)).low, '60', 'low')
  assert.deepStrictEqual(await read(1, 60), records[1].slice(60))
  await expectError(() => read(1, 10), 'OFFSET_OUT_OF_RANGE')
}

async function deleteTopic() {
  const exists = async () => (await admin.listTopics()).includes(shortLivedTopic)
  assert.strictEqual(await admin.createTopics({ topics: [{ topic: shortLivedTopic, numPartitions: 2 }] }), true)
  await eventually(exists, true)
  await admin.deleteTopics({ topics: [shortLivedTopic] })
  await eventually(exists, false)
  const oneTry = kafka.admin({ retry: { retries: 0 } })
  await oneTry.connect()
  await expectError(() => oneTry.deleteTopics({ topics: [shortLivedTopic] }), 'UNKNOWN_TOPIC_OR_PARTITION')
  await oneTry.disconnect()
}

async function main() {
  console.log(`kafkajs ${require('kafkajs/package.json').version}`)
  await step('connect the admin client', () => admin.connect())
  await step('create a topic', createTopic)
  await step('creating it again is refused', createTopicAgain)
  for (const [partition, [name, compression]] of CODECS.entries()) {
    const configuration = { idempotent: true, maxInFlightRequests: 1 }
    await step(`produce, idempotent, ${name}`, () => produce(partition, compression, configuration, -1))
  }
  await step('produce, not idempotent, acks=1', () => produce(PLAIN_PARTITION, CompressionTypes.None, {}, 1))
  await step('read every partition from offset 0', readEverything)
  await step('read from an offset in the middle', async () => {
    assert.deepStrictEqual(await read(0, 77), records[0].slice(77))
  })
  await step('read from the middle of a compressed batch', async () => {
    assert.deepStrictEqual(await read(1, 123), records[1].slice(123))
  })
  await step('read in small fetches', async () => assert.deepStrictEqual(await read(0, 0, 1000), records[0]))
  await step('first and last offsets', async () => {
    const { low, high } = await partitionOffsets(0)
    assert.deepStrictEqual([low, high], ['0', String(RECORDS_PER_PARTITION)])
  })
  await step('offsets for timestamps', offsetsByTimestamp)
  await step('read from a timestamp', readFromTimestamp)
  await step('an offset out of range is an error', () => expectError(() => read(0, 100000), 'OFFSET_OUT_OF_RANGE'))
  await step("describe the topic's configuration", describeTopicConfiguration)
  await step("describe the broker's configuration", describeBrokerConfiguration)
  await step('alter the configuration', alterConfiguration)
  await step('describe the cluster', describeCluster)
  await step('read in a group, and commit', readInAGroup)
  await step('list and describe the group', listAndDescribeGroup)
  await step("alter the group's offsets", alterGroupOffsets)
  await step('delete the group', deleteGroup)
  await step('create partitions', createPartitions)
  await step('fewer partitions are refused', createFewerPartitions)
  await step('delete records', deleteRecords)
  await step('delete a topic', deleteTopic)
  console.log(`${passed} passed, ${failed} failed`)
  process.exit(failed ? 1 : 0)
}

main()
