// Every process runs node-cron, and the leader runs all distributed tasks. The lease is kept until a run has ended.
import cron from 'node-cron'
import { Elector } from 'tenure'
import { fileStore } from 'tenure/stores/file'

const elector = new Elector({ store: fileStore({ directory: './leases' }), election: 'cron' })
elector.start()

const running = new Map()
cron.setRunCoordinator({
  async shouldRun(/** @type {string} */ key) {
    if (!elector.isLeader()) return false
    const leadership = await elector.waitForLeadership()
    leadership.waitUntil(new Promise((resolve) => running.set(key, resolve)))
    return true
  },
  onComplete(/** @type {string} */ key) {
    running.get(key)?.()
    running.delete(key)
  },
})

cron.schedule('* * * * * *', () => console.log(`${process.pid}: reports`), { name: 'report', distributed: true })
