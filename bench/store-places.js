// The servers, and the contenders that are compared on each of them.
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { Redis } from 'ioredis'
import { createConnection } from 'mysql2/promise'
import pg from 'pg'
import { guardedName } from './handover-picture.js'

/**
 * The store's client, used directly. Each call is one round trip that stores a string.
 *
 * @typedef {object} Bare
 * @property {(value: string) => Promise<unknown>} swap replaces the text only if it is the one stored last
 * @property {(value: string) => Promise<unknown>} write replaces any text
 * @property {() => Promise<unknown>} close
 *
 * @typedef {object} Contender
 * @property {string} program the file in bench/contenders
 * @property {string} name
 * @property {'started' | 'renewed'} fresh the event after which the whole lease remains
 * @property {true} [noticesCrashes] whether the next leader need not wait until the lease of a crashed process expires
 *
 * @typedef {object} Place
 * @property {'consul' | 'etcd' | 'mariadb' | 'postgres' | 'redis' | 'nats'} server the file in test/servers that starts it, and the name of its export
 * @property {string} name
 * @property {(port: number) => string} url
 * @property {(url: string) => Promise<unknown>} [prepare] runs once, after the server has started
 * @property {(url: string) => Promise<Bare>} openBare
 * @property {readonly Contender[]} contenders
 * @property {true} [polls] whether standbys ask from time to time, because the server does not notify them
 * @property {number} [requestsPerLease] the goal for an idle standby. Default: 1. A long poll ends with each renewal
 */

/** @type {Contender} */
export const tenure = { program: 'tenure', name: 'Tenure', fresh: 'renewed' }
/** @type {Contender} */
const guarded = { program: 'tenure-guarded', name: guardedName, fresh: 'renewed', noticesCrashes: true }

/** @type {readonly Place[]} */
export const places = [
  {
    server: 'etcd',
    name: 'etcd',
    url: (port) => `etcd://127.0.0.1:${port}`,
    openBare: openHttp,
    contenders: [
      tenure,
      guarded,
      { program: 'etcd3', fresh: 'started', name: `election of etcd3 ${versionOf('etcd3')}` },
    ],
  },
  {
    server: 'consul',
    name: 'Consul',
    url: (port) => `consul://127.0.0.1:${port}`,
    openBare: openConsul,
    requestsPerLease: 4,
    contenders: [
      tenure,
      guarded,
      { program: 'consul-session', fresh: 'started', name: 'session of 10 s, without lock-delay' },
    ],
  },
  {
    server: 'postgres',
    name: 'PostgreSQL',
    url: (port) => `postgres://postgres@127.0.0.1:${port}/postgres`,
    openBare: openPostgres,
    contenders: [
      tenure,
      guarded,
      {
        program: 'advisory-lock',
        fresh: 'started',
        name: `advisory lock, pg ${versionOf('pg')}`,
        noticesCrashes: true,
      },
    ],
  },
  {
    server: 'mariadb',
    name: 'MariaDB',
    url: (port) => `mysql://root@127.0.0.1:${port}/tenure`,
    openBare: openMariadb,
    polls: true,
    // Once per retry interval, which is 2/15 of the lease, give or take half of it.
    requestsPerLease: 9,
    contenders: [
      tenure,
      guarded,
      {
        program: 'get-lock',
        fresh: 'started',
        name: `GET_LOCK, mysql2 ${versionOf('mysql2')}`,
        noticesCrashes: true,
      },
    ],
  },
  {
    server: 'redis',
    name: 'Redis',
    url: (port) => `redis://127.0.0.1:${port}`,
    openBare: openRedis,
    contenders: [
      tenure,
      guarded,
      { program: 'redlock', fresh: 'started', name: `redlock ${versionOf('redlock')}` },
      { program: 'redis-semaphore', fresh: 'started', name: `redis-semaphore ${versionOf('redis-semaphore')}` },
    ],
  },
  {
    server: 'nats',
    name: 'NATS',
    url: (port) => `nats://127.0.0.1:${port}/leases`,
    prepare: async (url) => (await openNats(url)).close(),
    openBare: openNats,
    contenders: [
      tenure,
      guarded,
      {
        program: 'nats-lock',
        fresh: 'renewed',
        name: `lock by hand in a bucket with a TTL, kv ${versionOf('@nats-io/kv')}`,
      },
    ],
  },
]

/**
 * Sends requests over the HTTP client of Node.js, for stores that have no other client.
 *
 * @param {string} address
 */
function jsonClient(address) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  /** @param {string} method @param {string} path @param {string} body @returns {Promise<any>} */
  const send = (method, path, body) =>
    new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
      const call = request(address + path, { agent, method, headers }, (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (chunk) => (text += chunk))
        response.once('end', () => resolve(JSON.parse(text)))
      })
      call.once('error', reject)
      call.end(body)
    })
  return { send, close: async () => agent.destroy() }
}

/** @type {Place['openBare']} */
async function openConsul(url) {
  const { send, close } = jsonClient(url.replace('consul:', 'http:'))
  const swap = async (/** @type {string} */ value, /** @type {number} */ index) => {
    const operation = { Verb: 'cas', Key: 'swapped', Value: Buffer.from(value).toString('base64'), Index: index }
    const { Results: results } = await send('PUT', '/v1/txn', JSON.stringify([{ KV: operation }]))
    mustSwap(Array.isArray(results))
    return results[0].KV.ModifyIndex
  }
  let index = await swap('', 0)
  let count = 0
  return {
    async swap(value) {
      // Consul ignores a write of the same value.
      index = await swap(`${++count} ${value}`, index)
    },
    write: (value) => send('PUT', '/v1/kv/written', `${++count} ${value}`),
    close,
  }
}

/** @type {Place['openBare']} */
async function openHttp(url) {
  const base64 = (/** @type {string} */ text) => Buffer.from(text).toString('base64')
  const put = (/** @type {string} */ name, /** @type {string} */ value) => ({ key: base64(name), value: base64(value) })
  const { send, close } = jsonClient(url.replace('etcd:', 'http:'))
  const post = (/** @type {string} */ path, /** @type {object} */ content) =>
    send('POST', path, JSON.stringify(content))
  let revision = (await post('/v3/kv/put', put('swapped', ''))).header.revision
  return {
    async swap(value) {
      const compare = [{ key: base64('swapped'), target: 'MOD', mod_revision: revision, result: 'EQUAL' }]
      const answer = await post('/v3/kv/txn', { compare, success: [{ request_put: put('swapped', value) }] })
      mustSwap(answer.succeeded)
      revision = answer.header.revision
    },
    write: (value) => post('/v3/kv/put', put('written', value)),
    close,
  }
}

/** @type {Place['openBare']} */
async function openPostgres(url) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query('create table bare (name text primary key, value text, version bigint)')
  await client.query(`insert into bare values ('swapped', '', 0), ('written', '', 0)`)
  const swap = 'update bare set value = $1, version = version + 1 where name = $2 and version = $3 returning version'
  let version = '0'
  return {
    async swap(value) {
      const { rows } = await client.query(swap, [value, 'swapped', version])
      mustSwap(rows.length === 1)
      version = rows[0].version
    },
    write: (value) => client.query('update bare set value = $1 where name = $2', [value, 'written']),
    close: () => client.end(),
  }
}

/** @type {Place['openBare']} */
async function openMariadb(url) {
  const client = await createConnection({ uri: url })
  await client.query('create table bare (name varchar(20) primary key, value text, version bigint) engine = InnoDB')
  await client.query(`insert into bare values ('swapped', '', 0), ('written', '', 0)`)
  const swap = 'update bare set value = ?, version = version + 1 where name = ? and version = ?'
  let version = 0
  return {
    async swap(value) {
      const [result] = await client.execute(swap, [value, 'swapped', version])
      mustSwap('affectedRows' in result && result.affectedRows === 1)
      version += 1
    },
    write: (value) => client.execute('update bare set value = ? where name = ?', [value, 'written']),
    close: () => client.end(),
  }
}

/** @type {Place['openBare']} */
async function openRedis(url) {
  const client = new Redis(url)
  const swap = `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('set', KEYS[1], ARGV[2]) return 1`
  const hash = await client.script('LOAD', swap)
  await client.set('swapped', '')
  let last = ''
  let count = 0
  return {
    async swap(value) {
      const next = `${++count} ${value}`
      mustSwap((await client.evalsha(String(hash), 1, 'swapped', last, next)) === 1)
      last = next
    },
    write: (value) => client.set('written', value),
    close: () => client.quit(),
  }
}

/** @type {Place['openBare']} */
async function openNats(url) {
  const connection = await connect({ servers: new URL(url).host })
  const kv = await new Kvm(connection).create('leases')
  let revision = await kv.put('swapped', '')
  return {
    async swap(value) {
      revision = await kv.update('swapped', value, revision)
    },
    write: (value) => kv.put('written', value),
    close: () => connection.close(),
  }
}

/** @param {boolean} swapped */
function mustSwap(swapped) {
  if (!swapped) throw new Error('the server refused a swap over the value that it returned last')
}

/** @param {string} name */
function versionOf(name) {
  const require = createRequire(import.meta.url)
  let folder = dirname(require.resolve(name))
  for (;;) {
    try {
      const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
      if (manifest.name === name) return String(manifest.version).replace(/^v/, '')
    } catch {
      // Try the next folder.
    }
    folder = dirname(folder)
  }
}
