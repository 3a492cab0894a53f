import { invalidOption } from '../common/errors.ts'
import { checkName } from '../common/names.ts'
import { checkMethods } from '../common/check-options.ts'
import { checkOptions } from '../common/check-options.ts'
import type { IoredisClient, RedisArgument } from '../stores/redis/ioredis-client.ts'
import { checkTerm, staleTerm } from './term.ts'

export type { IoredisClient, RedisArgument } from '../stores/redis/ioredis-client.ts'

/** The part of a `redis` client that the guard needs. Clients of `createClient` and `createCluster` fit. */
export interface NodeRedisClient {
  eval(script: string, options: { keys: RedisArgument[]; arguments: RedisArgument[] }): Promise<unknown>
}

/** Options of {@link redisFence}. */
export interface RedisFenceOptions {
  readonly client: IoredisClient | NodeRedisClient
  /** All writes under the same name share one highest term. Usually the name of the election. */
  readonly resource: string
  /** The key of the highest term is this prefix followed by the resource. Default: `tenure-fence:`. */
  readonly prefix?: string | undefined
}

/** A command that writes one key: its name, the key, and its arguments. */
export type RedisWrite = readonly [command: string, key: string, ...args: (RedisArgument | number)[]]

/** A guard that keeps its highest term in a key of the same Redis as the data. */
export interface RedisFence {
  readonly resource: string
  /** The key that holds the highest term. It has no expiry, and must never be evicted or deleted. */
  readonly key: string
  /**
   * Writes if no higher term was accepted, and resolves with the command's reply. Otherwise it rejects with
   * `STALE_TERM`. After any other error the outcome is unknown: the command may have been applied, or may still be. A
   * client that resends after a lost connection may apply it twice.
   */
  write(term: number, command: RedisWrite): Promise<unknown>
}

// Lua's numbers are doubles, which are exact for every term. If the stored value is not a number, the comparison and
// the write fail, because it is unknown which term it replaced.
const script = `
local highest = redis.call('GET', KEYS[1])
if highest and not (tonumber(highest) <= tonumber(ARGV[1])) then
  return { 0, highest }
end
redis.call('SET', KEYS[1], ARGV[1])
return { 1, redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3)) }
`

/**
 * A guard for writes to Redis. One script compares the term and writes, and Redis runs nothing between the two.
 *
 * In a cluster both keys must be in the same slot. Give the resource and the keys the same hash tag, as in `resource:
 * '{report}'` and `['SET', '{report}:html', html]`.
 *
 * @example
 * const fence = redisFence({ client, resource: 'report' })
 * await fence.write(leadership.term, ['SET', 'report:html', html, 'EX', 3600])
 */
export function redisFence(options: RedisFenceOptions): RedisFence {
  checkOptions('redisFence()', options, { client: true, resource: true, prefix: true })
  const { client, resource, prefix = 'tenure-fence:' } = options
  checkMethods('client', client, ['eval'], 'a client from "ioredis" or "redis"')
  checkName('resource', resource)
  if (typeof prefix !== 'string') throw invalidOption('prefix', prefix, 'it must be text')
  const key = prefix + resource

  function evaluate(keys: string[], args: RedisArgument[]): Promise<unknown> {
    if ('defineCommand' in client) return client.eval(script, keys.length, ...keys, ...args)
    return client.eval(script, { keys, arguments: args })
  }

  return {
    resource,
    key,
    async write(term, command) {
      checkTerm('term', term)
      if (!Array.isArray(command) || command.length < 2) {
        throw invalidOption('command', command, 'it must be a list of a command, a key and arguments')
      }
      const [name, target, ...args] = command as RedisWrite
      if (target === key) throw invalidOption('command', target, "it must not write the guard's own key")
      const texts = args.map((argument) => (typeof argument === 'number' ? String(argument) : argument))
      const [accepted, reply] = (await evaluate([key, target], [String(term), name, ...texts])) as [unknown, unknown]
      if (Number(accepted) !== 1) throw staleTerm(resource, term, String(reply))
      return reply
    },
  }
}
