// What one controller costs, and how much each election writes.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { format } from './report.js'

/**
 * @typedef {object} Load
 * @property {number} resources
 * @property {number} leaseDurationMs
 * @property {number} windowMs for how long everything is counted
 *
 * @typedef {typeof import('../test/multicluster/clusters.ts')['startClusters']} StartClusters
 */

/** The number of driver processes. A single process would become the bottleneck. */
const drivers = 2
/** A machine that has not started them all by then cannot run them. */
const patienceMs = 120_000
/** Linux counts the CPU time of a process in these ticks. */
const tickMs = 10

/**
 * @param {StartClusters} startClusters
 * @param {import('./report.js').Report} figures
 * @param {Load} load
 */
export async function benchLoad(startClusters, figures, { resources, leaseDurationMs, windowMs }) {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-bench-'))
  const auditLog = join(folder, 'audit.log')
  const clusters = await startClusters({ names: ['east'], flags: () => auditFlags(folder, auditLog) })
  const { controllers, kubeConfig } = clusters.of('east')
  const [controller] = controllers
  const env = { ...process.env, KUBECONFIG: kubeConfig.controller }
  /** @type {import('node:child_process').ChildProcess[]} */
  const children = []
  try {
    console.log(`${resources} resources, each with a leader ...`)
    const started = Array.from({ length: drivers }, (_, index) => {
      const args = [`fleet-${index}`, String(Math.ceil(resources / drivers)), String(leaseDurationMs)]
      const child = fork(join(import.meta.dirname, 'multicluster-electors.js'), args, { env })
      children.push(child)
      return Promise.race([once(child, 'message'), failsWith(child)])
    })
    await Promise.race([Promise.all(started), sleep(patienceMs, undefined, { ref: false })])
    // By now the last ones have renewed once.
    await sleep(leaseDurationMs / 2)
    const told = { before: await totals(children), after: { led: 0, lost: 0 } }
    const pid = controller?.pid ?? 0
    const before = { cpuMs: cpuMs(pid), revision: await revisionOf(clusters.global.url), atMs: Date.now() }
    console.log(`counting for ${windowMs / 1000} s ...`)
    await sleep(windowMs)
    const after = { cpuMs: cpuMs(pid), revision: await revisionOf(clusters.global.url), atMs: Date.now() }
    told.after = await totals(children)
    const rssMb = residentMb(pid)
    // The audit log is written slightly later than the requests that it records.
    await sleep(1_000)
    const passedMs = after.atMs - before.atMs
    const writes = writesIn(auditLog, before.atMs, after.atMs)
    const { led } = told.after
    const lost = told.after.lost - told.before.lost
    const perLease = (/** @type {number} */ count) => (count / led / passedMs) * leaseDurationMs
    const about = `${resources} resources, each led at ${leaseDurationMs / 1000} s`
    figures.add({
      name: 'resources without a leader',
      value: resources - led,
      unit: 'resources',
      goal: 0,
      atMost: true,
      detail: `of ${resources}, ${lost} lost meanwhile; if there are any, the machine is too small or too busy, and a controller cannot be measured on it`,
    })
    // A controller with less work would look better than it is.
    if (led < resources) return
    const percent = ((after.cpuMs - before.cpuMs) / passedMs) * 100
    figures.add({
      name: 'a controller, processor for 1,000 resources',
      value: (percent / resources) * 1_000,
      unit: '% of one core',
      goal: 20,
      detail: `${format(percent)} % with ${about}, counted for ${Math.round(passedMs / 1000)} s; the rest is multiplied: two cores do not carry the API server and the electors of 1,000`,
    })
    figures.add({ name: 'a controller, resident memory', value: rssMb, unit: 'MB', goal: 150, detail: about })
    const counted = {
      'writes of a spec': writes.spec,
      'writes of a status': writes.status,
      'global writes': after.revision - before.revision,
    }
    for (const [what, count] of Object.entries(counted)) {
      figures.add({
        name: `an election, ${what} in a lease`,
        // A window may start or end within a renewal.
        value: Math.round(perLease(count) * 10) / 10,
        unit: 'writes',
        goal: 3,
        atMost: true,
        detail: `a leader renews 3 times in a lease; ${format(perLease(writes.reads))} reads at the API server`,
      })
    }
  } finally {
    for (const child of children) child.kill('SIGKILL')
    await clusters.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** @param {import('node:child_process').ChildProcess} child */
async function failsWith(child) {
  const [code, signal] = await once(child, 'exit')
  throw new Error(`a driver ended (${signal ?? code})`)
}

/**
 * Returns how many electors lead, and how often one has lost its leadership.
 *
 * @param {readonly import('node:child_process').ChildProcess[]} children
 */
async function totals(children) {
  const all = { led: 0, lost: 0 }
  for (const child of children) {
    const told = new Promise((resolve) => {
      // A driver may report at this moment that all of them lead.
      const take = (/** @type {unknown} */ message) => {
        if (message === 'led') return
        child.off('message', take)
        resolve(message)
      }
      child.on('message', take)
    })
    child.send('count')
    const { led, lost } = /** @type {typeof all} */ (await told)
    all.led += led
    all.lost += lost
  }
  return all
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

/** @param {string} folder @param {string} auditLog */
function auditFlags(folder, auditLog) {
  const policy = join(folder, 'audit-policy.json')
  const resources = [{ group: 'tenure.dev', resources: ['multiclusterleases', 'multiclusterleases/status'] }]
  const rules = [{ level: 'Metadata', resources, omitStages: ['RequestReceived'] }, { level: 'None' }]
  writeFileSync(policy, JSON.stringify({ apiVersion: 'audit.k8s.io/v1', kind: 'Policy', rules }))
  return [`--audit-policy-file=${policy}`, `--audit-log-path=${auditLog}`, '--audit-log-maxsize=1000']
}

/** @param {string} auditLog @param {number} fromMs @param {number} untilMs */
function writesIn(auditLog, fromMs, untilMs) {
  const counts = { spec: 0, status: 0, reads: 0 }
  for (const line of readFileSync(auditLog, 'utf8').split('\n').filter(Boolean)) {
    const { verb, stage, objectRef, requestReceivedTimestamp } = JSON.parse(line)
    const atMs = Date.parse(requestReceivedTimestamp)
    if (stage !== 'ResponseComplete' || atMs < fromMs || atMs >= untilMs) continue
    if (!/^(create|update|patch)$/.test(verb)) counts.reads += 1
    else if (objectRef.subresource === 'status') counts.status += 1
    else counts.spec += 1
  }
  return counts
}
