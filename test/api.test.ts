import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { memoryStore } from 'tenure'
import ts from 'typescript'
import { expect, onTestFinished, test, vi } from 'vitest'
import * as api from './api/blocks.ts'

const root = join(import.meta.dirname, '..')

/** Returns the compiler's diagnostics for one file under the project's own settings. */
function diagnose(file: string, text?: string): string[] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.base.json'), (path) => readFileSync(path, 'utf8'))
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root)
  const settings = { ...options, noEmit: true, typeRoots: [join(root, 'node_modules/@types')] }
  const host = ts.createCompilerHost(settings)
  const readSource = host.getSourceFile.bind(host)
  host.getSourceFile = (name, language) =>
    name === file && text !== undefined ? ts.createSourceFile(name, text, language) : readSource(name, language)
  const program = ts.createProgram([file], settings, host)
  return ts.getPreEmitDiagnostics(program).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))
}

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-api-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  return directory
}

const blocks = join(import.meta.dirname, 'api/blocks.ts')

test('code that users write compiles against the built package', () => {
  expect(diagnose(blocks)).toEqual([])
})

test('the compiler reports a name that the package does not export', () => {
  const text = readFileSync(blocks, 'utf8')
  expect(diagnose(blocks, text.replace('waitForLeadership', 'awaitLeadership'))).toHaveLength(1)
  expect(diagnose(blocks, text.replace('retryPeriodMs', 'retryIntervalMs'))).toHaveLength(1)
})

test('the lead() example runs', async () => {
  expect(await api.leadBlock(newDirectory())).toEqual([1])
})

test('the Kubernetes example fails outside a pod with a clear error', () => {
  vi.stubEnv('KUBERNETES_SERVICE_HOST', undefined)
  onTestFinished(() => void vi.unstubAllEnvs())
  expect(api.onKubernetes).toThrow(/only in a pod.*fromKubeConfig/)
  vi.stubEnv('KUBERNETES_SERVICE_HOST', '10.0.0.1')
  vi.stubEnv('POD_NAME', 'my-app-0')
  vi.stubEnv('POD_NAMESPACE', 'payments')
  expect(api.onKubernetes().slice(1)).toMatchObject([
    { namespace: 'payments' },
    { namespace: 'jobs' },
    { namespace: 'reports' },
  ])
})

test('a process says who should lead, and hands over by name', async () => {
  expect(await api.preferenceBlock()).toEqual(['undefined', 'true', 'normal', 'handed-over', 'term 2'])
})

test('the Elector example runs', async () => {
  expect(await api.electorBlock()).toEqual({
    said: ['term 1', 'last run 2026-11-15', '10000', 'true', 'released 1 payments LEADERSHIP_LOST'],
    events: ['new-leader', 'elected', 'renewed', 'lost'],
  })
})

test('the Manager and Lease example runs', async () => {
  expect(await api.managerAndLease()).toEqual(['false true false', 'term 1', '0 errors', 'true false'])
})

test('the keyed elections example runs', async () => {
  expect(await api.keyedElections()).toEqual(['held true', 'other false', 'aborted true'])
})

test('the LeaderElector callbacks example runs', async () => {
  expect(await api.callbacks()).toEqual(['leader true', 'started 1 false true true', 'stopped', 'false ""'])
})

test('the example of jobs once per fleet runs', async () => {
  expect(await api.jobsOncePerFleet()).toEqual([
    'ran',
    'already-done',
    'ran',
    'ran',
    ['migrate', 'job', 'job'],
    ['hourly', 'import', 'migrate-v42', 'nightly-report', 'sync'],
  ])
})

test('the withLock code runs in one term, and a second lock is refused during that time', async () => {
  expect(await api.lockBlock()).toEqual(['term 1', 'LOCK_TIMEOUT'])
})

test('the observer example runs and lists the elections', async () => {
  const said = await api.observeBlock()
  expect(said.at(0)).toBe('state')
  expect(said.slice(-2)).toEqual(['released', 'payments 1'])
})

test('a store that implements the whole LeaseStore interface elects a leader', async () => {
  const store = api.forwardingStore(memoryStore())
  const [claim, , outcomes] = api.claimsAndOutcomes()
  const { signal } = new AbortController()
  expect(await store.acquire(claim, { signal })).toMatchObject({ ok: true, record: { term: 1 } })
  expect(await store.acquire({ ...claim, attempt: 'b', afterTerm: 1 }, { signal })).toMatchObject({ ok: false })
  expect(outcomes).toHaveLength(3)
  await store.close?.()
})

test('the factories of all stores have the documented names', () => {
  expect(api.otherStores().map(({ expiry, terms }) => [expiry, terms])).toEqual([
    ['observed', true],
    ['own-clock', false],
  ])
})

test('the conformance suite runs in any test runner', async () => {
  expect(await api.conformance()).toBeGreaterThan(20)
})

test('a store that is built from tenure/store-kit passes the conformance suite', async () => {
  expect((await api.conformanceOfAnAuthor()).length).toBeGreaterThan(20)
})

test('the API examples for openStore, the fake clock, and the fake leadership give the documented results', async () => {
  expect(await api.storesAndTesting(newDirectory())).toEqual([
    'own-clock',
    'own-clock',
    '5000',
    'LEADERSHIP_LOST false',
  ])
})
