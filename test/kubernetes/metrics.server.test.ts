import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { electionMetrics } from '../../packages/tenure/src/telemetry/metrics.ts'
import { sceneTest } from './lease-fixture.ts'
import { pathOf } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'
import { describeWithCluster, describeWithPrograms } from '../servers/suite.ts'

const rules = join(import.meta.dirname, '../../deploy/prometheus')

describeWithPrograms([programs.promtool], 'the alerts for Prometheus', () => {
  test('the Prometheus alerts are valid and fire when nobody leads, and not earlier', () => {
    const promtool = (...args: string[]) => execFileSync(pathOf(programs.promtool), args, { cwd: rules, stdio: 'pipe' })
    promtool('check', 'rules', '--lint-fatal', 'rules.yaml')
    promtool('test', 'rules', 'rules-test.yaml')
  })

  test('the Prometheus alerts use existing metrics', () => {
    const shown = electionMetrics().text()
    const names = readFileSync(join(rules, 'rules.yaml'), 'utf8').match(/\b(?:leader_election|tenure)_\w+/g) ?? []
    expect(new Set(names).size).toBeGreaterThan(3)
    for (const name of names) expect(shown).toContain(`# TYPE ${name.replace(/_(sum|count)$/, '')} `)
  })

  test('the Prometheus alerts equal those on the page for operators', () => {
    const page = readFileSync(join(rules, '../../docs/how-to/kubernetes-operations.md'), 'utf8')
    const [expression = ''] = /expr: .*/.exec(page) ?? []
    expect(readFileSync(join(rules, 'rules.yaml'), 'utf8')).toContain(expression)
    expect(expression).toContain('== 0')
  })
})

describeWithCluster(
  'metrics of Leases',
  (cluster) => {
    const sceneOf = sceneTest(cluster)

    sceneOf(
      'metrics show one leader for each of two namespaces in a format that Prometheus accepts',
      async ({ scene }) => {
        const { admin, namespace } = scene.cluster
        const other = `${namespace}-metrics`
        await admin.request('POST', '/api/v1/namespaces', { metadata: { name: other } })
        // Both may lead at once, because these are two elections.
        scene.mayOverlap = true
        const [leaders, standbys] = [electionMetrics(), electionMetrics()]
        const start = (identity: string, observer: typeof leaders) =>
          [namespace, other].map((leaseNamespace) => scene.replica(identity, { leaseNamespace, observer }))
        const first = start('pod-a', leaders)
        await scene.until(() => first.every(({ elector }) => elector.isLeader()))
        const second = start('pod-b', standbys)
        await scene.until(() => second.every(({ elector }) => elector.getLeader() === 'pod-a'))
        const status = (place: string, value: number) =>
          `\nleader_election_master_status{name="${scene.leaseName}",lease_namespace="${place}"} ${value}\n`
        for (const place of [namespace, other]) {
          expect(leaders.text()).toContain(status(place, 1))
          expect(standbys.text()).toContain(status(place, 0))
        }
        for (const replica of first) replica.abort()
        await scene.until(() => second.every(({ elector }) => elector.isLeader()))
        for (const metrics of [leaders, standbys]) {
          const checked = spawnSync(pathOf(programs.promtool), ['check', 'metrics'], { input: metrics.text() })
          expect([checked.status, String(checked.stderr)]).toEqual([0, ''])
        }
        const broken = spawnSync(pathOf(programs.promtool), ['check', 'metrics'], {
          input: leaders.text().replace('"', ''),
        })
        expect(broken.status).not.toBe(0)
      },
    )
  },
  { needs: [programs.promtool] },
)
