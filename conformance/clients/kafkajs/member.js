// A member of a consumer group with kafkajs: it commits after processing, and says so.
//
// node member.js BOOTSTRAP GROUP TOPIC   prints what clients/python/group_history.py says of a member's lines; ends cleanly at SIGTERM.

const { Kafka, logLevel } = require('kafkajs')

if (process.argv.length !== 5) {
  console.error('usage: node member.js BOOTSTRAP GROUP TOPIC')
  process.exit(2)
}
const [bootstrap, groupId, topic] = process.argv.slice(2)
const kafka = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.WARN })
const consumer = kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 1000, metadataMaxAge: 5000 })

async function processBatch({ batch, resolveOffset, isRunning, isStale }) {
  let next = null
  for (const message of batch.messages) {
    if (!isRunning() || isStale()) break
    console.log(`record ${batch.partition} ${message.offset} ${message.value}`)
    resolveOffset(message.offset)
    next = String(BigInt(message.offset) + 1n)
  }
  if (next === null) return
  // Where it is refused, kafkajs joins again, and whoever has the partition then begins where was committed before.
  await consumer.commitOffsets([{ topic, partition: batch.partition, offset: next }])
  console.log(`commit ${batch.partition} ${next}`)
}

async function main() {
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    console.log(`assigned ${(payload.memberAssignment[topic] || []).sort().join(',')}`)
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    console.log(`error ${payload.error.name} ${payload.error.message}, ${payload.restart ? 'starts again' : 'ends'}`)
    if (!payload.restart) process.exit(1)
  })
  process.on('SIGTERM', async () => {
    await consumer.disconnect()
    console.log('left')
    process.exit(0)
  })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: processBatch })
}

main().catch(error => {
  console.log(`error ${error.name} ${error.message}`)
  process.exit(1)
})
