import { setTimeout as wait } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Deployment } from './deploy-manifests.ts'
import { collectionOf, inNamespace } from './manifests.ts'
import { newGate, operatorObjects, prepareOperator, type Operator } from './operator-fixture.ts'
import { programs } from '../servers/programs.ts'
import { describeWithCluster } from '../servers/suite.ts'

const needs = [programs.node24]
/** Leases have to expire several times, which takes longer on a busy machine. */
const unhurried = { timeout: 120_000 }

describeWithCluster(
  'an operator',
  (cluster) => {
    test('kubernetes-operator: its pods pass the strictest pod security standard', async () => {
      const { admin, namespace } = cluster()
      const strict = `${namespace}-strict`
      const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' }
      await admin.request('POST', '/api/v1/namespaces', { metadata: { name: strict, labels } })
      const deployment = operatorObjects.find(({ kind }) => kind === 'Deployment') as Deployment
      const { template } = deployment.spec
      const pod = {
        apiVersion: 'v1',
        kind: 'Pod',
        ...template,
        metadata: { ...template.metadata, name: 'my-operator' },
      }
      const path = `${collectionOf(pod, strict)}?fieldValidation=Strict`
      expect((await admin.request('POST', path, inNamespace(pod, strict))).status).toBe(201)
    })

    test(
      'kubernetes-operator: only the leader watches and writes, however its predecessor ended',
      unhurried,
      async () => {
        const scene = await prepareOperator(cluster())
        const sources = ['web', 'api']
        for (const name of sources) await scene.createSource(name)
        const changing = keepChanging(async (count) => {
          for (const name of sources) await scene.change(name, { data: { COUNT: String(count) } })
        })
        const replicas: Operator[] = []
        const start = async (name: string) => {
          const replica = await scene.replica(name)
          replicas.push(replica)
          return replica
        }
        const terms: number[] = []
        const leads = async (leader: Operator) => {
          const term = await leader.leadsAfter(terms.at(-1) ?? 0)
          terms.push(term)
          for (const name of sources) await leader.says(`${leader.name} wrote ${name}-env in term ${term}`)
          for (const replica of replicas) await replica.hasWatches(replica === leader ? 2 : 0)
        }

        const first = await start('pod-a')
        await leads(first)
        const second = await start('pod-b')
        await second.says('pod-b sees that pod-a leads')
        expect(second.requests()).toEqual([])
        for (const replica of replicas) expect((await replica.asked('/readyz'))[0]).toBe(200)

        first.kill('SIGTERM')
        expect(await first.ended).toEqual({ code: 0, signal: null })
        await leads(second)

        const third = await start('pod-c')
        await third.says('pod-c sees that pod-b leads')
        second.kill('SIGKILL')
        await leads(third)

        const fourth = await start('pod-d')
        await fourth.says('pod-d sees that pod-c leads')
        third.kill('SIGSTOP')
        await fourth.leadsAfter(terms.at(-1) ?? 0)
        await fourth.hasWatches(2)
        third.kill('SIGCONT')
        await third.says('pod-c stopped leading')
        await leads(fourth)

        fourth.kill('SIGTERM')
        expect(await fourth.ended).toEqual({ code: 0, signal: null })
        await leads(third)

        const count = await changing.stop()
        const lastTerm = terms.at(-1) ?? 0
        for (const name of sources) await scene.isDerived(name, lastTerm, count)
        // For each ConfigMap the API server accepted only newer writes of the same or a later leader.
        for (const name of sources) {
          const versions = scene.versions.filter((version) => version.name === `${name}-env`)
          expect(versions.map(({ term }) => term)).toEqual(expect.arrayContaining(terms))
          expect(versions).toEqual(versions.toSorted((one, other) => one.term - other.term || one.count - other.count))
        }
        expect(turns(replicas)).toEqual(['pod-a', 'pod-b', 'pod-c', 'pod-d', 'pod-c'])

        for (const replica of replicas)
          expect(replica.lines()).not.toContainEqual(expect.stringMatching(/that {2}leads/))

        await scene.remove('web')
        await third.says(`pod-c deleted web-env in term ${lastTerm}`)
        await scene.remove('api-env')
        await scene.isDerived('api', lastTerm, count)
      },
    )

    test(
      'kubernetes-operator: a write that was in flight when its leader was paused is refused',
      unhurried,
      async () => {
        const scene = await prepareOperator(cluster())
        await scene.createSource('web')
        const first = await scene.replica('pod-a')
        const term = await first.leadsAfter(0)
        await scene.isDerived('web', term, 0)
        const second = await scene.replica('pod-b')
        await second.says('pod-b sees that pod-a leads')

        const gate = newGate()
        first.front.answer = ({ method }) => (method === 'PUT' ? gate.opened : undefined)
        await scene.change('web', { data: { COUNT: '1' } })
        const late = await vi.waitUntil(() => first.writes().find(({ method }) => method === 'PUT'), {
          timeout: 10_000,
          interval: 1,
        })
        first.kill('SIGSTOP')
        // The next leader finds the correct content. It must still record its term.
        await scene.change('web', { data: { COUNT: '0' } })
        const nextTerm = await second.leadsAfter(term)
        await scene.isDerived('web', nextTerm, 0)
        gate.open()
        await vi.waitUntil(() => late.endedAtMs !== undefined, { timeout: 10_000 })
        expect(late.status).toBe(409)
        first.front.answer = undefined
        first.kill('SIGCONT')
        await first.says('pod-a stopped leading')
        await first.hasWatches(0)
        await second.hasWatches(2)
        expect(scene.versions).toEqual([
          { name: 'web-env', term, count: 0 },
          { name: 'web-env', term: nextTerm, count: 0 },
        ])
      },
    )

    test(
      'kubernetes-operator: watches are reopened when they are cut, but not after leadership has ended',
      unhurried,
      async () => {
        const scene = await prepareOperator(cluster())
        await scene.createSource('web')
        await scene.createSource('future')
        const labels = { 'example.com/env-file': 'derived' }
        await scene.create({ metadata: { name: 'future-env', labels, annotations: { 'example.com/term': '99' } } })
        const operator = await scene.replica('pod-a')
        const term = await operator.leadsAfter(0)
        await scene.isDerived('web', term, 0)
        await operator.says(
          `pod-a tries future again: ConfigMap future-env was written in term 99, but this leader has only term ${term}.`,
        )
        await operator.hasWatches(2)

        operator.front.cut()
        await scene.change('web', { data: { COUNT: '1' } })
        await scene.isDerived('web', term, 1)
        await operator.hasWatches(2)

        // Hold back these watches, so that they open only after leadership has ended.
        const gate = newGate()
        operator.front.answer = ({ isWatch, path }) =>
          isWatch && path.includes('/configmaps') ? gate.opened : undefined
        const before = operator.requests().length
        operator.front.cut()
        const opening = () =>
          operator
            .requests()
            .slice(before)
            .filter(({ isWatch }) => isWatch)
        await vi.waitUntil(() => opening().length === 2, { timeout: 10_000 })
        await scene.changeLease({ holderIdentity: 'somebody', leaseTransitions: term + 1 })
        await operator.says('pod-a stopped leading')
        const late = opening()
        expect(late.map(({ endedAtMs }) => endedAtMs)).toEqual([undefined, undefined])
        gate.open()
        await vi.waitUntil(() => late.every(({ endedAtMs }) => endedAtMs !== undefined), { timeout: 10_000 })

        const nextTerm = await operator.leadsAfter(term + 1)
        await scene.change('web', { data: { COUNT: '2' } })
        await scene.isDerived('web', nextTerm, 2)
        await operator.hasWatches(2)
      },
    )
  },
  { needs },
)

/** Changes something twice a second, with a rising number, until it is stopped. */
function keepChanging(change: (count: number) => Promise<unknown>) {
  const stopping = new AbortController()
  onTestFinished(() => stopping.abort())
  const changed = (async () => {
    for (let count = 1; ; count++) {
      await change(count)
      if (stopping.signal.aborted) return count
      await wait(400)
    }
  })()
  return {
    stop() {
      stopping.abort()
      return changed
    },
  }
}

/** Returns the writers in order. */
function turns(replicas: readonly Operator[]): string[] {
  const written = replicas.flatMap(({ name, writes }) =>
    writes()
      .filter(({ status = 0 }) => status >= 200 && status < 300)
      .map(({ atMs }) => ({ name, atMs })),
  )
  const names = written.toSorted((one, other) => one.atMs - other.atMs).map(({ name }) => name)
  return names.filter((name, index) => name !== names[index - 1])
}
