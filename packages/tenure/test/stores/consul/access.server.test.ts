/** Tokens, certificates, and servers that cannot be used. */
import { AssertionError, equal } from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import {
  consul,
  consulWith,
  consulWithTokens,
  createToken,
  managementToken,
  putKey,
} from '../../../../../test/servers/consul.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { start, type ServerKind } from '../../../../../test/servers/server.ts'
import { describeWith, describeWithPrograms } from '../../../../../test/servers/suite.ts'
import type { LeaseStore } from '../../../src/engine/lease-store.ts'
import * as sound from '../../../src/stores/consul/index.ts'
import { openStore } from '../../../src/stores/index.ts'
import { claimOf, failsWith, granted } from '../../clients/etcd/checks.ts'
import { makeCertificate } from '../../kubernetes/certificate.ts'
import { consulAccessMutations } from './mutants.ts'

const { consulStore } = sound
const callOf = () => ({ signal: new AbortController().signal, timeoutMs: 10_000 })
const grant = async (store: LeaseStore) => granted(await store.acquire(claimOf(), callOf()))

async function startOwn(kind: ServerKind) {
  const server = await start(kind)
  onTestFinished(() => server.stop())
  return server
}

interface Tokens {
  readonly url: string
  readonly writer: string
  readonly reader: string
  readonly stranger: string
  /** May not read the term of the election `part`. */
  readonly partial: string
}

const advice = /Pass a token \(CONSUL_HTTP_TOKEN/

const accessChecks: Record<string, (library: typeof sound, tokens: Tokens) => Promise<void>> = {
  async 'a token that may only read is reported'(library, { url, writer, reader }) {
    const record = await grant(library.consulStore({ endpoints: url, token: writer }))
    const store = library.consulStore({ endpoints: url, token: reader })
    equal((await store.read(record.election, callOf()))?.version, record.version)
    await failsWith(store.acquire(claimOf(), callOf()), 'UNAUTHORIZED', advice)
  },
  async 'a token that may read the record but not the term is reported'(library, { url, writer, partial }) {
    const election = 'part'
    await library.consulStore({ endpoints: url, token: writer }).acquire(claimOf({ election }), callOf())
    const store = library.consulStore({ endpoints: url, token: partial })
    await failsWith(store.read(election, callOf()), 'UNAUTHORIZED', advice)
  },
  async 'a token that may not read the record is reported'(library, { url, writer, stranger }) {
    const record = await grant(library.consulStore({ endpoints: url, token: writer }))
    for (const token of [stranger, undefined]) {
      const store = library.consulStore({ endpoints: url, token })
      await failsWith(store.read(record.election, callOf()), 'UNAUTHORIZED', advice)
    }
  },
}

describeWith(consulWithTokens, 'consulStore with tokens', (server) => {
  let tokens: Tokens
  beforeAll(async () => {
    const at = { url: server().url, token: managementToken }
    const tokenWith = async (name: string, rules: string) => (await createToken(at, name, rules)).token
    const rule = (policy: string, prefix = 'tenure/') => `key_prefix "${prefix}" { policy = "${policy}" }`
    tokens = {
      url: at.url,
      writer: await tokenWith('writer', rule('write')),
      reader: await tokenWith('reader', rule('read')),
      stranger: await tokenWith('stranger', rule('write', 'other/')),
      partial: await tokenWith('partial', `${rule('read')} ${rule('deny', 'tenure/part/term')}`),
    }
  })

  test.for(Object.keys(accessChecks))('%s', async (name) => accessChecks[name]?.(sound, tokens))

  test.for(consulAccessMutations)('the checks catch the mutant: $name', async (mutation) => {
    const check = accessChecks[mutation.caughtBy]
    if (!check) throw new Error(`There is no check "${mutation.caughtBy}".`)
    const { leases } = await loadMutant<{ leases: typeof sound }>(mutation, { leases: 'stores/consul/index.ts' })
    await expect(check(leases, tokens)).rejects.toThrow(AssertionError)
  })

  test('a wrong token is reported, and the token function is called again before each request', async () => {
    const unknown = '11111111-2222-3333-4444-555555555555'
    let token = unknown
    const store = consulStore({ endpoints: tokens.url, token: () => token })
    const failure = await grant(store).catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: 'UNAUTHORIZED', message: expect.stringMatching(advice) })
    expect(String(failure)).not.toContain(unknown)
    token = tokens.writer
    await grant(store)
  })

  test('openStore takes the token from the environment or a file', async () => {
    const host = tokens.url.replace('http://', '')
    const folder = mkdtempSync(join(tmpdir(), 'tenure-consul-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'token')
    writeFileSync(file, `${tokens.writer}\n`)
    for (const environment of [{ CONSUL_HTTP_TOKEN: tokens.writer }, { CONSUL_HTTP_TOKEN_FILE: file }]) {
      await grant(await openStore(`consul://${host}/tenure`, { environment }))
    }
    await expect(openStore(`consul://${tokens.writer}@${host}`, { environment: {} })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('CONSUL_HTTP_TOKEN'),
    })
  })
})

describeWithPrograms([programs.consul], 'consulStore on servers of different kinds', () => {
  test('consulStore trusts only the configured CA and presents a certificate', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tenure-consul-tls-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const [own, client] = [makeCertificate(), makeCertificate()]
    const written = (name: string, text: string) => {
      const path = join(folder, name)
      writeFileSync(path, text, { mode: 0o600 })
      return path
    }
    const [ca, cert, key] = [written('ca', own.cert), written('cert', client.cert), written('key', client.key)]
    const tls = { ca: own.cert, cert: client.cert, key: client.key }
    const ofServer = { cert_file: ca, key_file: written('server-key', own.key), ca_file: cert, verify_incoming: true }
    const server = await startOwn({
      ...consul,
      prepare: (place) =>
        consulWith({
          ports: { http: -1, https: place.port, dns: -1, grpc: -1, serf_wan: -1 },
          tls: { https: ofServer },
        }).prepare?.(place),
      probe: ({ port }) => consulStore({ ...tls, endpoints: `https://127.0.0.1:${port}` }).read('none', callOf()),
    })
    const environment = { TENURE_CA_FILE: ca, TENURE_CERT_FILE: cert, TENURE_KEY_FILE: key }
    await grant(await openStore(`consuls://127.0.0.1:${server.port}`, { environment }))
    for (const wrong of [{ ...environment, TENURE_CA_FILE: undefined }, { TENURE_CA_FILE: ca }]) {
      const store = await openStore(`consuls://127.0.0.1:${server.port}`, { environment: wrong })
      await expect(grant(store)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    }
    const plain = consulStore({ endpoints: `http://127.0.0.1:${server.port}` })
    await expect(grant(plain)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  })

  test('consulStore reports a server without a leader and tries again', async () => {
    // Without the second server, the first one cannot be elected.
    const alone = consulWith({ bootstrap: undefined, bootstrap_expect: 2 })
    const probe: ServerKind['probe'] = async ({ port }) => {
      const answer = await fetch(`http://127.0.0.1:${port}/v1/status/leader`)
      await answer.arrayBuffer()
    }
    const server = await startOwn({ ...alone, probe })
    await expect(grant(consulStore({ endpoints: server.url }))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      retryable: true,
      message: expect.stringContaining('Consul has no leader'),
    })
  })

  test('consulStore reports agents of different clusters', async () => {
    const [one, other] = await Promise.all([startOwn(consul), startOwn(consul)])
    const store = consulStore({ endpoints: [one.url, other.url] })
    expect(await store.examine?.('x', callOf())).toEqual([expect.objectContaining({ code: 'WRONG_CLUSTER' })])
    const same = consulStore({ endpoints: [one.url, one.url.replace('127.0.0.1', 'localhost')] })
    expect(await same.examine?.('x', callOf())).toEqual([])
    const texts = async () => (await store.inspect(callOf())).map(({ risk, text }) => `${risk}: ${text}`)
    expect(await texts()).toEqual([
      expect.stringMatching(/^unsafe: The addresses belong to different clusters/),
      expect.stringMatching(/^tight: It has one server/),
    ])
    await one.kill('SIGKILL')
    expect(await texts()).toContainEqual(expect.stringMatching(/^tight: 127.0.0.1:\d+ did not answer/))
  })

  test('consulStore keeps the leader when Consul is killed and started again with its data', async () => {
    const server = await startOwn(consul)
    const store = consulStore({ endpoints: server.url })
    const record = await grant(store)
    await server.kill('SIGKILL')
    await expect(store.read(record.election, callOf())).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    await server.start()
    expect(await store.read(record.election, callOf())).toEqual(record)
  })
})

describeWith(
  consulWith({ limits: { kv_max_value_size: 10_000, txn_max_req_len: 10_000, http_max_conns_per_client: 1_000 } }),
  'consulStore on a server that accepts only small values',
  (server) => {
    test('consulStore reports a record that is too large', async () => {
      const store = consulStore({ endpoints: server().url })
      const record = await grant(store)
      const renewal = store.renew({ ...record, checkpoint: 'x'.repeat(20_000) }, callOf())
      await expect(renewal).rejects.toMatchObject({
        code: 'TOO_LARGE',
        message: expect.stringContaining('kv_max_value_size'),
      })
      expect(await store.read(record.election, callOf())).toEqual(record)
      await expect(putKey(server(), 'large', 'x'.repeat(20_000))).rejects.toThrow('too large')
    })
  },
)

describe('consulStore and a server that is not Consul', () => {
  test('consulStore reports an address where nothing listens', async () => {
    await expect(grant(consulStore({ endpoints: 'http://127.0.0.1:9' }))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      retryable: true,
    })
  })
})
