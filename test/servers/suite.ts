import { afterAll, beforeAll, describe, test } from 'vitest'
import { clusterPrograms, startCluster, type ApiServer, type Cluster, type ClusterOptions } from './cluster.ts'
import { find, type Program } from './find-program.ts'
import { noteUntested } from './report-missing.ts'
import { shareCluster } from './shared-cluster.ts'
import { start, type RunningServer, type ServerKind } from './server.ts'

/**
 * A suite with its own server. If the server is not available, the suite is skipped and the last lines of the run
 * report that. With `CI=true` it fails.
 */
export function describeWith(kind: ServerKind, name: string, define: (server: () => RunningServer) => void): void {
  describeStarted(name, [kind.program], () => start(kind), define)
}

/** Options of a suite with an API server. */
export interface ClusterSuiteOptions {
  /** Programs that it needs besides the API server. */
  readonly needs?: readonly Program[]
}

/**
 * A suite with its own namespace on the API server that all such suites share. In all other respects, it is like
 * `describeWith`.
 */
export function describeWithCluster(
  name: string,
  define: (cluster: () => ApiServer) => void,
  { needs = [] }: ClusterSuiteOptions = {},
): void {
  const begin = async () => ({ cluster: await shareCluster(), stop: async () => {} })
  describeStarted(name, [...clusterPrograms, ...needs], begin, (started) => define(() => started().cluster))
}

/**
 * A suite that stops, kills, or configures its API server, and therefore has its own. In all other respects, it is like
 * `describeWith`.
 */
export function describeWithOwnCluster(
  name: string,
  define: (cluster: () => Cluster) => void,
  { needs = [], ...options }: ClusterSuiteOptions & ClusterOptions = {},
): void {
  describeStarted(name, [...clusterPrograms, ...needs], () => startCluster(options), define)
}

/**
 * A suite that needs these programs but does not start them itself. In all other respects, it is like `describeWith`.
 */
export function describeWithPrograms(needed: readonly Program[], name: string, define: () => void): void {
  describeStarted(name, needed, async () => ({ stop: async () => {} }), define)
}

/** A suite that runs if all of these programs are found. `begin` starts the servers that the suite needs. */
function describeStarted<Started extends { stop(): Promise<void> }>(
  name: string,
  needed: readonly Program[],
  begin: () => Promise<Started>,
  define: (started: () => Started) => void,
): void {
  const missing = needed.map(find).flatMap((found) => ('missing' in found ? [found.missing] : []))
  if (missing.length > 0) return describeMissing(missing.join('; '), name)
  describe(name, () => {
    let started: Started | undefined
    beforeAll(async () => {
      started = await begin()
    })
    afterAll(() => started?.stop())
    define(() => {
      if (!started) throw new Error('the server is started by a hook: access it only in a hook or a test')
      return started
    })
  })
}

/**
 * A suite that needs a privilege of this user. If `reason` is set, the privilege is missing, and the suite is skipped,
 * even with `CI=true`.
 */
export function describeWithRight(reason: string | undefined, name: string, define: () => void): void {
  if (reason !== undefined) noteUntested(name, reason)
  describe.skipIf(reason !== undefined)(name, define)
}

function describeMissing(reason: string, name: string) {
  noteUntested(name, reason)
  describe(name, () => {
    test.skipIf(process.env['CI'] !== 'true')(reason, () => {
      throw new Error(reason)
    })
  })
}
