// Measures what one controller costs, and how much each election writes.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { format } from './numbers.js'

/**
 * @typedef {object} Load
 * @property {number} resources
 * @property {number} leaseDurationMs
 * @property {number} windowMs for how long everything is counted
 *
 * @typedef {typeof import('../test/multicluster/clusters.ts')['startClusters']} StartClusters
 */

/** If the machine has not started all leaders by then, it cannot run them. */
const patienceMs = 120_000
/** Linux counts the CPU time of a process in these ticks. */
const tickMs = 10
/** The API server shares the machine with the controller. With more memory it collects its garbage less often. */
const garbagePercent = '400'

/**
 * @param {StartClusters} startClusters
 * @param {import('./report.js').Report} figures
 * @param {Load} load
 */
export async function benchLoad(startClusters, figures, { resources, leaseDurationMs, windowMs }) {
  process.env['GOGC'] ??= garbagePercent
  const clusters = await startClusters({ names: ['east'] })
  const { controllers, kubeConfig, api } = clusters.of('east')
  const [controller] = controllers
  const env = { ...process.env, KUBECONFIG: kubeConfig.controller }
  const args = [String(resources), String(leaseDurationMs)]
  const leaders = fork(join(import.meta.dirname, 'multicluster-leaders.js'), args, { env })
  try {
    console.log(`${resources} resources, each with a leader ...`)
    const started = Promise.race([once(leaders, 'message'), failsWith(leaders)])
    await Promise.race([started, sleep(patienceMs, undefined, { ref: false })])
    // By now the last ones have renewed once.
    await sleep(leaseDurationMs / 2)
    const told = { before: await totals(leaders), after: { led: 0, lost: 0 } }
    const pid = controller?.pid ?? 0
    const count = async () => ({
      atMs: performance.now(),
      cpuMs: cpuMs(pid),
      serverCpuMs: cpuMs(api.pid ?? 0),
      revision: await revisionOf(clusters.global.url),
      requests: await requestsOf(api),
    })
    const before = await count()
    console.log(`counting for ${windowMs / 1000} s ...`)
    await sleep(windowMs)
    const after = await count()
    told.after = await totals(leaders)
    const rssMb = residentMb(pid)
    const passedMs = after.atMs - before.atMs
    const { led } = told.after
    const lost = told.after.lost - told.before.lost
    const perLease = (/** @type {number} */ counted) => (counted / led / passedMs) * leaseDurationMs
    const writes = {
      spec: after.requests.spec - before.requests.spec,
      status: after.requests.status - before.requests.status,
      reads: after.requests.reads - before.requests.reads,
    }
    figures.add({
      name: 'resources without a leader',
      value: resources - led,
      unit: 'resources',
      goal: 0,
      atMost: true,
      detail: `of ${resources}, ${lost} lost during the measurement; if there are any, the machine is too small or too busy, and a controller cannot be measured on it`,
    })
    // A controller with less work would look better than it is, so check that every elector leads.
    if (led < resources) return
    const percentOf = (/** @type {number} */ usedMs) => (usedMs / passedMs) * 100
    const about = `${resources} resources, each led at ${leaseDurationMs / 1000} s`
    const rate = `${format((writes.status / passedMs) * 1_000)} answers a second`
    const server = `${format(percentOf(after.serverCpuMs - before.serverCpuMs))} % for the API server`
    figures.add({
      name: `a controller, processor for ${resources.toLocaleString('en-US')} resources`,
      value: percentOf(after.cpuMs - before.cpuMs),
      unit: '% of one core',
      goal: 20,
      detail: `${about}; ${rate}, and ${server} beside it; counted for ${Math.round(passedMs / 1000)} s`,
    })
    figures.add({ name: 'a controller, resident memory', value: rssMb, unit: 'MB', goal: 150, detail: about })
    const counted = {
      'writes of a spec': writes.spec,
      'writes of a status': writes.status,
      'global writes': after.revision - before.revision,
    }
    for (const [what, times] of Object.entries(counted)) {
      figures.add({
        name: `an election, ${what} in a lease`,
        // A window may start or end within a renewal.
        value: Math.round(perLease(times) * 10) / 10,
        unit: 'writes',
        goal: 3,
        atMost: true,
        detail: `a leader renews 3 times in a lease; ${format(perLease(writes.reads))} reads at the API server`,
      })
    }
  } finally {
    leaders.kill('SIGKILL')
    await clusters.stop()
  }
}

/** @param {import('node:child_process').ChildProcess} child */
async function failsWith(child) {
  const [code, signal] = await once(child, 'exit')
  throw new Error(`a driver ended (${signal ?? code})`)
}

/**
 * Returns how many leaders lead, and how many times one has lost its leadership.
 *
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<{ led: number, lost: number }>}
 */
function totals(child) {
  const told = new Promise((resolve) => {
    // The process may report at this moment that all of its leaders lead.
    const take = (/** @type {unknown} */ message) => {
      if (message === 'led') return
      child.off('message', take)
      resolve(message)
    }
    child.on('message', take)
  })
  child.send('count')
  return told
}

/** @param {number} pid */
function cpuMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) * tickMs
}

/** @param {number} pid */
function residentMb(pid) {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}

/** Returns the revision of an etcd, which counts its writes. @param {string} url */
async function revisionOf(url) {
  const answer = await fetch(`${url}/v3/kv/range`, { method: 'POST', body: JSON.stringify({ key: btoa('none') }) })
  const { header } = /** @type {{ header: { revision: string } }} */ (await answer.json())
  return Number(header.revision)
}

/**
 * Returns how many requests for MultiClusterLeases the API server has answered, according to its metrics.
 *
 * @param {import('../test/servers/cluster.ts').Cluster} api
 */
async function requestsOf(api) {
  const { body } = await api.admin.request('GET', '/metrics')
  const counts = { spec: 0, status: 0, reads: 0 }
  for (const [, labels = '', times] of String(body).matchAll(/^apiserver_request_total\{(.*)\} (\S+)$/gm)) {
    if (!labels.includes('resource="multiclusterleases"')) continue
    const [, verb = ''] = /verb="([A-Z]+)"/.exec(labels) ?? []
    if (!/^(POST|PUT|PATCH)$/.test(verb)) counts.reads += Number(times)
    else if (labels.includes('subresource="status"')) counts.status += Number(times)
    else counts.spec += Number(times)
  }
  return counts
}
