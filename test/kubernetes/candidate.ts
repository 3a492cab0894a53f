import { expect, onTestFinished } from 'vitest'
import { KubernetesClient } from '../../packages/tenure/src/clients/kubernetes/client.ts'
import { LeaderElector } from '../../packages/tenure/src/api/kubernetes.ts'
import { serviceAccount } from '../../packages/tenure/src/clients/kubernetes/credentials/service-account.ts'
import type { ApiServer } from '../servers/cluster.ts'
import type { TestNamespace } from './test-namespace.ts'

interface CandidateOptions {
  readonly leaseName?: string
  readonly leaseDurationMs?: number
  readonly recordEvents?: boolean
}

/** An elector that runs as in a pod of the Deployment, with only the token of its service account. */
export function candidate(
  { url }: ApiServer,
  { namespace, folder: mounted }: TestNamespace,
  identity: string,
  options: CandidateOptions = {},
) {
  const stopping = new AbortController()
  const started = later<{ readonly term: number; readonly atMs: number }>()
  const failed = later<unknown>()
  const errors: unknown[] = []
  const renewals: (() => void)[] = []
  const elector = new LeaderElector({
    client: new KubernetesClient(serviceAccount(url, mounted)),
    leaseName: 'my-app',
    leaseNamespace: namespace,
    identity,
    ...options,
    callbacks: { onStartedLeading: (_, { term }) => started.resolve({ term, atMs: performance.now() }) },
    observer: {
      onEvent(event) {
        if (event.type === 'renewed') for (const seen of renewals) seen()
        if (event.type !== 'error' && event.type !== 'renew-failed') return
        errors.push(event.error)
        failed.resolve(event.error)
      },
    },
  })
  const ended = elector.run({ signal: stopping.signal })
  const stop = async () => {
    const atMs = performance.now()
    stopping.abort()
    await ended
    return atMs
  }
  onTestFinished(() => void stop())
  return {
    started: started.promise,
    failed: failed.promise,
    errors,
    elector,
    stop,
    /** Resolves after this many more renewals. */
    renewed: (times: number) =>
      new Promise<void>((resolve) => {
        let left = times
        renewals.push(() => --left <= 0 && resolve())
      }),
  }
}

type Candidate = ReturnType<typeof candidate>

/** Returns whichever of the two leads, once the other one has seen it. */
export async function race(first: Candidate | undefined, second: Candidate | undefined) {
  if (!first || !second) throw new Error('race() needs two candidates.')
  await Promise.race([first.started, second.started])
  const [leader, standby] = first.elector.isLeader() ? [first, second] : [second, first]
  await expect.poll(() => standby.elector.getLeader(), { timeout: 5_000, interval: 10 }).not.toBe('')
  return { leader, standby }
}

function later<T>() {
  let resolve: (value: T) => void = () => undefined
  const promise = new Promise<T>((settle) => (resolve = settle))
  return { promise, resolve: (value: T) => resolve(value) }
}
