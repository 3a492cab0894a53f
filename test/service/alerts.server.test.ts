/** The alerts in deploy/prometheus, tested by promtool and by a Prometheus that scrapes a service with faults. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { electionMetrics } from '../../packages/tenure/src/telemetry/metrics.ts'
import { root } from '../documents.ts'
import { pathOf } from '../servers/find-program.ts'
import { end } from '../servers/process.ts'
import { programs } from '../servers/programs.ts'
import { prometheusWith } from '../servers/prometheus.ts'
import { start } from '../servers/server.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from './serve.ts'

const folder = join(root, 'deploy/prometheus')
const read = (name: string) => readFileSync(join(folder, name), 'utf8')
const patience = { timeout: 30_000, interval: 100 }

/** Returns the same rules sixty times as fast: a minute becomes a second. */
function faster(text: string): string {
  const seconds = { s: 1, m: 60 } as const
  return text.replaceAll(/(?<=for: |\[)(\d+)([sm])\b/g, (_, count: string, unit: 's' | 'm') => {
    return `${Math.max(500, (Number(count) * seconds[unit] * 1_000) / 60)}ms`
  })
}

interface Alert {
  readonly state: string
  readonly labels: Readonly<Record<string, string>>
}

/** Starts a service, a `tenure run` that campaigns in it, and a Prometheus that scrapes both. */
async function scene(...flags: string[]) {
  const service = await serve('--min-ttl', '1s', ...flags)
  onTestFinished(() => service.stop())
  const run = await candidate(service.url)
  const targets = { service: `127.0.0.1:${service.port}`, run }
  const rules = [faster(read('rules.yaml')), faster(read('service-rules.yaml'))]
  const prometheus = await start(prometheusWith({ rules, targets }))
  onTestFinished(() => prometheus.stop())
  const api = async (path: string) => {
    const answer = await fetch(`${prometheus.url}/api/v1/${path}`)
    return ((await answer.json()) as { data: { alerts: Alert[]; result: { value: [number, string] }[] } }).data
  }
  const firing = async (alertname: string) =>
    (await api('alerts')).alerts
      .filter(({ state, labels }) => state === 'firing' && labels['alertname'] === alertname)
      .map(({ labels }) => labels['group'] ?? labels['election'] ?? '')
  return {
    service,
    firing,
    fires: (alertname: string, of = '') => expect.poll(() => firing(alertname), patience).toContain(of),
    /** Repeats a fault until the alert fires. On a busy machine Prometheus scrapes late and misses a short fault. */
    async firesAfter(harm: (time: number) => Promise<unknown>, alertname: string, of = '') {
      const isTold = async () => (await firing(alertname)).includes(of)
      for (let time = 1; time <= 20 && !(await isTold()); time++) {
        await harm(time)
        await vi.waitUntil(isTold, { timeout: 3_000, interval: 100 }).catch(() => false)
      }
      expect(await firing(alertname)).toContain(of)
    },
    rests: (alertname: string) => expect.poll(() => firing(alertname), patience).toEqual([]),
    value: async (query: string) => Number((await api(`query?query=${encodeURIComponent(query)}`)).result[0]?.value[1]),
    async ask(group: string, verb: string, body: object) {
      const answer = await fetch(`${service.url}/v1/groups/${group}/${verb}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ node_id: 'a', ...body }),
      })
      return answer.status
    },
  }
}

/** Starts a `tenure run` that campaigns in "report". Returns `host:port` of its metrics. */
async function candidate(url: string): Promise<string> {
  const tenure = join(root, 'packages/cli/bin/tenure.js')
  const args = ['run', 'report', '--store', url, '--ttl', '3s', '--metrics', '0', '--', 'sleep', '1000']
  const child = spawn(process.execPath, [tenure, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
  onTestFinished(async () => {
    child.kill('SIGTERM')
    await Promise.race([once(child, 'exit'), new Promise((resolve) => setTimeout(resolve, 5_000))])
    await end(child, 'SIGKILL')
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text))
  const shown = await vi.waitUntil(() => /metrics are at (\S+)/.exec(said)?.[1], patience)
  return new URL(shown).host
}

describeWithPrograms([programs.promtool], 'the alerts of the service', () => {
  test('the alerts of the service are valid and pass the tests that promtool runs', () => {
    const promtool = (...args: string[]) =>
      execFileSync(pathOf(programs.promtool), args, { cwd: folder, stdio: 'pipe' })
    promtool('check', 'rules', '--lint-fatal', 'service-rules.yaml')
    promtool('test', 'rules', 'service-rules-test.yaml')
  })
})

describeWithPrograms([programs.prometheus], 'alerts of a Prometheus that scrapes a service', () => {
  test(
    'the alerts of the service use existing metrics, and each fires when its fault occurs',
    { timeout: 240_000 },
    async () => {
      const on = await scene('--metrics-groups', 'payments,report,calm,flappy')
      const shown = electionMetrics().text() + (await (await fetch(`${on.service.url}/metrics`)).text())
      const names = read('service-rules.yaml').match(/\b(?:nodejs|tenure)_\w+/g) ?? []
      for (const name of names) expect(shown).toContain(`# TYPE ${name.replace(/_(bucket|count)$/, '')} `)

      expect(await on.ask('calm', 'campaign', { lease_ttl_ms: 600_000 })).toBe(200)
      await on.fires('GroupWithoutLeader', 'payments')
      expect(await on.firing('GroupWithoutLeader')).not.toContain('calm')
      await expect.poll(() => on.firing('GroupWithoutLeader'), patience).not.toContain('report')
      expect(await on.ask('payments', 'campaign', { lease_ttl_ms: 600_000 })).toBe(200)
      let term = 0
      const flap = async () => {
        for (let time = 1; time <= 6; time++) {
          term += 1
          await on.ask('flappy', 'campaign', { lease_ttl_ms: 60_000 })
          await expect.poll(() => on.value('tenure_group_term{group="flappy"}'), patience).toBe(term)
          await on.ask('flappy', 'resign', { term })
        }
      }
      await on.firesAfter(flap, 'GroupChangesLeaderOften', 'flappy')
      const renewInVain = async () => {
        for (let time = 0; time < 9; time++) await on.ask('flappy', 'renew', { term: 1, extend_by_ms: 60_000 })
      }
      await on.firesAfter(renewInVain, 'RenewalsFail')
      // No alert about payments remains, and the other alerts were never affected.
      await expect.poll(() => on.firing('GroupWithoutLeader'), patience).toEqual(['flappy'])
      expect(await on.firing('NoActiveReplica')).toEqual([])

      // Pauses the service, so that the renewals of the run are not answered.
      const pause = async () => {
        on.service.resume()
        await expect.poll(() => on.value('leader_election_master_status'), patience).toBe(1)
        on.service.pause()
        await on.fires('NoActiveReplica')
      }
      await on.firesAfter(pause, 'RenewalsFail', 'report')
      const stall = async () => {
        on.service.pause()
        await on.fires('NoActiveReplica')
        on.service.resume()
      }
      await on.firesAfter(stall, 'EventLoopNearLease')
      on.service.resume()
      await on.rests('NoActiveReplica')

      renameSync(join(on.service.directory, 'data'), join(on.service.directory, 'moved'))
      await on.fires('StoreCannotBeWritten')
    },
  )
})
